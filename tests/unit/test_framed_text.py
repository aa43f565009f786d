"""Text from others reaches a session inside one frame, as harmless words."""

import pytest
from hypothesis import HealthCheck, given, settings

from hostile_channels import CALLING, CHANNELS
from hostile_text import HOSTILE, TEXTS, assert_framed


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_channel_is_told(channel):
    """Ordinary words arrive by each channel, so hostile words would arrive, too."""
    told = CHANNELS[channel]("canary word here")
    assert_framed(told, calls=CALLING.get(channel, 0))
    assert "canary" in told


@pytest.mark.parametrize("channel", CHANNELS)
def test_no_text_leaves_the_frame(channel):
    """The text has one opening and one closing mark, and no tag, call or control between them."""
    for text in HOSTILE:
        for said in (text, f"Fix {text} it"):
            assert_framed(CHANNELS[channel](said), calls=CALLING.get(channel, 0))


def fuzzed(channel, examples):
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(TEXTS)
    def check(text):
        assert_framed(CHANNELS[channel](text), calls=CALLING.get(channel, 0))

    check()


@pytest.mark.parametrize("channel", CHANNELS)
def test_fuzzed(channel):
    """The frame holds for any text that is made of hostile pieces."""
    fuzzed(channel, 15)


@pytest.mark.long
@pytest.mark.parametrize("channel", CHANNELS)
def test_fuzzed_for_long(channel):
    """The frame holds for a thousand such texts."""
    fuzzed(channel, 1000)
