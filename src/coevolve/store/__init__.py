"""What a run leaves behind: where it lies, what each phase records, and what that adds up to."""
