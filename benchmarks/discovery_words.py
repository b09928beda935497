"""The vocabulary of the generated registry: what agents can do, and for which field.

Each capability and each field comes with the words that stand on the cards, the words of somebody
who asks with the same words, and those of somebody who asks with others. Written by hand for this
benchmark; nobody's data.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Words(NamedTuple):
    """One capability or field."""

    card: str
    """On the cards."""
    same: str
    """In queries that share words with the cards."""
    other: str
    """In queries of the held-out split, which share none."""


CAPABILITIES: Final = (
    Words("translate documents between languages", "translate a document", "put pages into French"),
    Words("summarise long reports", "summarise a report", "boil a lengthy paper down to its gist"),
    Words("forecast future demand", "forecast the demand", "predict how many will be wanted"),
    Words(
        "detect anomalies in sensor readings", "detect an anomaly", "notice when something is off"
    ),
    Words(
        "schedule appointments and meetings", "schedule appointments", "find a free slot in a diary"
    ),
    Words("draft contracts and clauses", "draft a contract", "write a binding agreement"),
    Words("audit invoices and expenses", "audit the invoices", "check that bills are in order"),
    Words("classify images by content", "classify images", "sort photographs by what they show"),
    Words("transcribe audio recordings", "transcribe a recording", "type up what was spoken"),
    Words(
        "optimise delivery routes", "optimise the route", "work out the shortest way for drivers"
    ),
    Words("answer customer complaints", "answer complaints", "calm down unhappy buyers"),
    Words("design training courses", "design a course", "put lessons together for beginners"),
    Words(
        "clean and deduplicate tables", "deduplicate a table", "remove double rows in spreadsheets"
    ),
    Words("visualise data as charts", "visualise data in a chart", "draw graphs of the figures"),
    Words("screen job applicants", "screen applicants", "choose whom to interview"),
    Words("monitor regulation and compliance", "monitor regulation", "watch for new laws"),
    Words("estimate project costs", "estimate costs", "say how much money it will take"),
    Words("generate marketing slogans", "generate slogans", "think of catchy phrases for adverts"),
    Words("review program source code", "review source code", "look for bugs in software"),
    Words("simulate physical processes", "simulate a process", "model numerically how it behaves"),
    Words("negotiate prices with suppliers", "negotiate prices", "bargain with vendors"),
    Words("moderate user comments", "moderate comments", "filter rude posts"),
    Words("extract entities from text", "extract entities", "pull names and places out of letters"),
    Words("plan inventory and stock", "plan the inventory", "decide what to keep on the shelves"),
)

FIELDS: Final = (
    Words("hospitals and patients", "a hospital", "a clinic with sick people"),
    Words("wind and solar energy", "solar energy", "turbines and photovoltaic parks"),
    Words("banks and loans", "a bank", "lending and mortgages"),
    Words("railways and trains", "a railway", "rolling carriages on tracks"),
    Words("farming and crops", "farming", "growers of wheat and maize"),
    Words("insurance policies", "insurance", "cover against damage"),
    Words("museums and exhibitions", "a museum", "a gallery with paintings"),
    Words("schools and pupils", "a school", "classrooms full of children"),
    Words("shipping and harbours", "shipping", "freight vessels at sea"),
    Words("restaurants and kitchens", "a restaurant", "chefs and diners"),
    Words("football clubs and sport", "a football club", "a team that plays matches"),
    Words("mining and minerals", "mining", "digging ore from the ground"),
    Words("fashion and clothing", "fashion", "garments and dresses"),
    Words("pharmaceutical research", "pharmaceutical research", "developing new drugs"),
    Words("video games and players", "video games", "consoles and gamers"),
    Words("real estate and housing", "real estate", "flats to let"),
)
