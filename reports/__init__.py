"""Tables, plots, pages and the gate's verdict, generated from run files alone."""
