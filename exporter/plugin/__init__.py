"""What runs inside the engine; imports only records.trace and errors, and never raises."""
