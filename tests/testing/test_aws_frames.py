from __future__ import annotations

from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._eventstream import Frame, read_frames
from stepwell.testing._aws_frames import event_of, frame_of

names = st.text("abc:-", min_size=1, max_size=20)


@given(
    st.lists(st.tuples(st.dictionaries(names, st.text(max_size=40), max_size=4), st.binary(max_size=200)), max_size=4)
)
def test_two_readers_agree_on_what_was_written(messages: list[tuple[dict[str, str], bytes]]) -> None:
    body = b"".join(frame_of(headers, payload) for headers, payload in messages)
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    assert [(dict(event.headers), event.payload) for event in buffer] == messages
    read = read_frames(body)
    assert read.complete
    assert read.frames == [Frame(dict(headers), payload) for headers, payload in messages]


def test_an_event_is_labelled_as_bedrock_does() -> None:
    (frame,) = read_frames(event_of("messageStop", b"{}")).frames
    assert frame.headers == {
        ":event-type": "messageStop",
        ":content-type": "application/json",
        ":message-type": "event",
    }
