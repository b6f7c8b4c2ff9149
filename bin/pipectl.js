#!/usr/bin/env node
// Launcher: runs the built program. From a checkout it needs `npm run build` (or `npm start`, which builds).
import { existsSync } from 'node:fs'

const entry = new URL('../dist/apps/cli/main.js', import.meta.url)
if (!existsSync(entry)) {
  process.stderr.write('pipectl: not built yet; run `npm run build` in the checkout first\n')
  process.exit(1)
}
const { main } = await import(entry.href)
process.exitCode = await main(process.argv.slice(2))
