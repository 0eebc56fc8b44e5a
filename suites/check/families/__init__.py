"""API families: one file each, with the functions of suites.check.functions. `Buffer` in a file is the class to check.

A file's text is run with the user's class as `Buffer`, and parts of it stand in the scripts that repeat a finding, so
it is as short as a user of the library would write it.
"""
