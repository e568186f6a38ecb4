"""The pages by name: each turns an address into values that its template shows."""
