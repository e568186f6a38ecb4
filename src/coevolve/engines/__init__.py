"""What trains a policy on tasks."""
