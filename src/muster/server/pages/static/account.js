// The own account: its choice of colours is that of the frame.
import { $ } from './dom.js';
import './actions.js';

const [own, ofFrame] = [$('[data-same-theme]'), $('[data-theme-choice]')];
own.addEventListener('change', () => { ofFrame.value = own.value; ofFrame.dispatchEvent(new Event('change')); });
ofFrame.addEventListener('change', () => { own.value = ofFrame.value; });
