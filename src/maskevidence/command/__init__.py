"""The commands: functions of arguments and options that return a `Result`, which the application shows."""
