// The shared worker: holds the one connection of a browser, and tells all of its tabs. A tab that comes later gets what it missed.
import { follow } from './live_stream.js';

const KEPT = 1000;
const ports = new Set();
const recent = [];
let started = false;
let isConnected = true;

const tell = (message) => { for (const port of ports) port.postMessage(message); };

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.leave) { ports.delete(port); return; }
    ports.add(port);
    port.postMessage({ connected: isConnected });
    for (const event of recent) if (event.seq > data.after) port.postMessage(event);
    if (started) return;
    started = true;
    follow(data.after, (event) => {
      recent.push(event);
      if (recent.length > KEPT) recent.shift();
      tell(event);
    }, (connected) => { isConnected = connected; tell({ connected }); }).then(() => { started = false; });
  };
};
