// Runs that change, told to all tabs over one connection of the browser: by a shared worker, else by the tab that leads.
import { $ } from './dom.js';
import { follow } from './live_stream.js';

const CHANNEL = 'muster-live';

/** Calls `heard` with each run that changes after the page was made, whose number `[data-seq]` holds. */
export const watchRuns = (heard) => {
  const after = Number($('[data-seq]')?.dataset.seq ?? 0);
  let seen = after;
  const take = (event) => {
    if (event.connected !== undefined) $('[data-offline]').hidden = event.connected;
    else if (event.seq > seen) { seen = event.seq; heard(event.run); }
  };
  if (window.SharedWorker) {
    const worker = new SharedWorker(new URL('./live_worker.js', import.meta.url), { type: 'module', name: CHANNEL });
    worker.port.onmessage = ({ data }) => take(data);
    worker.port.postMessage({ after });
    addEventListener('pagehide', () => worker.port.postMessage({ leave: true }));
    addEventListener('pageshow', (event) => { if (event.persisted) worker.port.postMessage({ after: seen }); });
    return;
  }
  const channel = window.BroadcastChannel ? new BroadcastChannel(CHANNEL) : { postMessage: () => {} };
  channel.onmessage = ({ data }) => take(data);
  const tell = (event) => { take(event); channel.postMessage(event); };
  const lead = () => follow(seen, tell, (connected) => tell({ connected }));
  if (navigator.locks && window.BroadcastChannel) navigator.locks.request(CHANNEL, lead);
  else lead();
};
