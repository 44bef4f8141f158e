"""The isolation under attack: what each level promises, what each layer is for, and that nothing is left
behind.
"""
