"""Tables, plots, pages and the gate's verdict, made from run files alone."""
