#!/usr/bin/env node
// Launcher: runs the built program. From a checkout it needs `npm run build` (or `npm start`, which builds).
import { existsSync } from 'node:fs'

const main = new URL('../dist/cli/main.js', import.meta.url)
if (!existsSync(main)) {
  process.stderr.write('pipectl: not built yet; run `npm run build` in the checkout first\n')
  process.exit(1)
}
await import(main.href)
