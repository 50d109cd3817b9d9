// Streams of JSON lines, for pages and workers.

/** Yields the objects of an answer that is a stream of JSON lines. */
export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n');
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}
