// Light or dark: as the system has it, or as was chosen here.
import { computed, effect, signal } from '@preact/signals';

export type Choice = 'system' | 'light' | 'dark';
const media = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(media.matches);
media.addEventListener('change', () => (systemDark.value = media.matches));

export const choice = signal<Choice>((localStorage.getItem('kvasir-theme') as Choice) ?? 'system');
export const scheme = computed(() => (choice.value === 'system' ? (systemDark.value ? 'dark' : 'light') : choice.value));

effect(() => {
  document.documentElement.dataset.theme = scheme.value;
});

export function choose(next: Choice): void {
  choice.value = next;
  localStorage.setItem('kvasir-theme', next);
}
