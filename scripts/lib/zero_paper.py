# SPDX-License-Identifier: Apache-2.0
"""Table 1 of the ZeRO paper (Rajbhandari et al. 2020, arXiv 1910.02054): model states per device in GB of 10^9 bytes."""

# parameters: {ranks: printed figures of stages 1, 2 and 3}
PRINTED = {
    7_500_000_000: {1: ("120", "120", "120"), 4: ("52.5", "41.3", "30"), 16: ("35.6", "21.6", "7.5"),
                    64: ("31.4", "16.6", "1.88"), 256: ("30.4", "15.4", "0.47"), 1024: ("30.1", "15.1", "0.12")},
    128_000_000_000: {1: ("2048", "2048", "2048"), 4: ("896", "704", "512"), 16: ("608", "368", "128"),
                      64: ("536", "284", "32"), 256: ("518", "263", "8"), 1024: ("513", "257", "2")},
    1_000_000_000_000: {1: ("16000", "16000", "16000"), 4: ("7000", "5500", "4000"), 16: ("4750", "2875", "1000"),
                        64: ("4187", "2218", "250"), 256: ("4046", "2054", "62.5"), 1024: ("4011", "2013", "15.6")},
}


def points(parameters):
    """(ranks, stage, printed) for each figure of the model with `parameters` parameters; none if the paper lacks it."""
    for ranks, row in PRINTED.get(parameters, {}).items():
        for stage, printed in enumerate(row, start=1):
            yield ranks, stage, printed


def agrees(gigabytes, printed):
    """Whether they agree to the last printed digit. The paper rounds some figures and truncates others, so one unit of
    it either way is allowed."""
    decimals = len(printed.partition(".")[2])
    return abs(gigabytes - float(printed)) < 10.0**-decimals
