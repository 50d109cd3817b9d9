// One connection to the stream of runs that change; it is made again after a break, where it stopped.
import { lines } from './json_lines.js';

const LONGEST = 30000;

/** Follows the stream for good. `heard` gets each event, `connected` whether there is a connection. */
export const follow = async (after, heard, connected) => {
  let [seq, pause] = [after, 500];
  for (;;) {
    try {
      const answer = await fetch(`/api/v1/events${seq === null ? '' : `?after=${seq}`}`);
      if (answer.status === 401) { connected(false); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      connected(true);
      for await (const event of lines(answer)) {
        pause = 500;
        if (event.seq !== undefined) { seq = event.seq; heard(event); }
      }
    } catch { /* the server is away for a while */ }
    connected(false);
    await new Promise((resolve) => { setTimeout(resolve, pause); });
    pause = Math.min(LONGEST, pause * 2);
  }
};
