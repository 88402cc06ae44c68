import { defineConfig } from 'vite';

// Links are relative, so that the page works behind a proxy's path, too.
export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2022',
    modulePreload: false,
    assetsInlineLimit: 0,
    assetsDir: 'page',
    reportCompressedSize: false,
  },
});
