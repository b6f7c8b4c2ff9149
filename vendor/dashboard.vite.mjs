/**
 * How src/apps/dashboard becomes dist/dashboard: by `npm run build`, and by `npm run dev:dashboard`, which serves it as it is
 * written and hands requests to a daemon (PIPECTL_URL, or the default address).
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const daemon = process.env.PIPECTL_URL ?? 'http://127.0.0.1:8080'

export default {
  root: path.join(root, 'src', 'apps', 'dashboard'),
  base: '/dashboard/',
  publicDir: false,
  cacheDir: path.join(root, 'node_modules', '.cache', 'vite'),
  logLevel: 'warn',
  plugins: [{ name: 'modules', writeBundle: (_, bundle) => noteModules(bundle) }],
  resolve: {
    alias: {
      // It writes <style> elements, which the pages' Content-Security-Policy does not allow.
      'react-remove-scroll': path.join(root, 'src', 'apps', 'dashboard', 'ui', 'scroll-lock.tsx'),
    },
  },
  build: {
    outDir: path.join(root, 'dist', 'dashboard'),
    emptyOutDir: true,
    // With light-dark() and nesting, which the style sheets use as they are.
    target: ['chrome123', 'firefox128', 'safari17.5'],
    // A data: URL is nothing that the Content-Security-Policy allows.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      checks: { pluginTimings: false },
      // "use client" is for servers that render pages.
      onLog: (level, log, handle) => (log.code === 'MODULE_LEVEL_DIRECTIVE' ? undefined : handle(level, log)),
    },
  },
  server: {
    host: '127.0.0.1',
    proxy: Object.fromEntries(['/dashboard/api', '/v1', '/openapi'].map((place) => [place, daemon])),
  },
}

/** Their licenses go with a package of this program. */
function noteModules(bundle) {
  const modules = Object.values(bundle).flatMap(({ moduleIds = [] }) => moduleIds)
  const names = modules.filter((one) => one.startsWith(root)).map((one) => path.relative(root, one))
  writeFileSync(path.join(root, 'dist', 'dashboard-modules.json'), JSON.stringify(names))
}
