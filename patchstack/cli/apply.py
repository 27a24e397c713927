"""stub"""
def apply_command() -> None:
    """x"""
