"""The mechanisms of the model as step tables that the tests play and docs/model shows.

chapters   The scenarios, one module a subject; docs/model is printed from them.
drivers    Drivers of scenarios: who sends, delivers and looks; columns show what a cell says.
framework  Scenarios: a mechanism explained step by step, and the explanation executed.
page       docs/model: the mechanisms of the model, a page a chapter, each with its tables.
registry   The registry of chapters, in the order of docs/model.
"""
