import { render } from 'preact';
import { App } from './app';
import { watch } from './live';
// In this order, since a later sheet wins over an earlier one.
import './styles/base.css';
import './styles/controls.css';
import './styles/frame.css';
import './styles/chat.css';
import './styles/cache.css';
import './styles/charts.css';
import './styles/planner.css';
import './styles/narrow.css';

render(<App />, document.getElementById('app')!);
void watch();
