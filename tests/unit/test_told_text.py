"""Whatever others wrote, a session is told it inside one frame, as harmless words."""

import pytest
from hypothesis import HealthCheck, given, settings

from hostile_channels import CALLING, CHANNELS
from hostile_text import HOSTILE, TEXTS, assert_framed


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_channel_is_told(channel):
    """Ordinary words arrive by each channel, so that the hostile ones would, too."""
    told = CHANNELS[channel]("canary word here")
    assert_framed(told, calls=CALLING.get(channel, 0))
    assert "canary" in told


@pytest.mark.parametrize("channel", CHANNELS)
def test_no_text_leaves_the_frame(channel):
    """One opening and one closing mark, and no tag, call or control between them."""
    for text in HOSTILE:
        for said in (text, f"Fix {text} it"):
            assert_framed(CHANNELS[channel](said), calls=CALLING.get(channel, 0))


def fuzzed(channel, examples):
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(TEXTS)
    def told(text):
        assert_framed(CHANNELS[channel](text), calls=CALLING.get(channel, 0))

    told()


@pytest.mark.parametrize("channel", CHANNELS)
def test_fuzzed(channel):
    """So it is with any text that is made of such pieces."""
    fuzzed(channel, 15)


@pytest.mark.long
@pytest.mark.parametrize("channel", CHANNELS)
def test_fuzzed_for_long(channel):
    """The same, with a thousand texts."""
    fuzzed(channel, 1000)
