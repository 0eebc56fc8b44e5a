"""The gate's measurement: two builds of the native package, compared until each benchmark is decided."""
