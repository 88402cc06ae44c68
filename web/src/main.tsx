import { render } from 'preact';
import { App } from './app';
import { watch } from './live';
import './style.css';

render(<App />, document.getElementById('app')!);
void watch();
