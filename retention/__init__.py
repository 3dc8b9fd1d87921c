"""The rules of retention, pure: windows, lifetimes, policies; scalars and arrays alike."""
