/**
 * Part of `npm run build:tests`: the program as packages ship it, in dist-test/program. The daemons that tests start are
 * ready in a third less of CPU than those of dist/, and what is tested is what is shipped.
 */
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const stage = path.join(root, 'dist-test', 'program')
const list = path.join(stage, '.assets.json')
const inputs = ['src', 'vendor', 'package-lock.json']

if (!isUpToDate()) {
  const { bundleProgram } = await import('./bundle-program.mjs')
  rmSync(stage, { recursive: true, force: true })
  const { assets } = await bundleProgram(stage)
  writeFileSync(list, JSON.stringify(assets))
}
for (const name of [...JSON.parse(readFileSync(list, 'utf8')), 'bin', 'package.json'])
  cpSync(path.join(root, name), path.join(stage, name), { recursive: true })

function isUpToDate() {
  const madeMs = statSync(list, { throwIfNoEntry: false })?.mtimeMs ?? 0
  return inputs.every((name) => newestMs(path.join(root, name)) < madeMs)
}

function newestMs(place) {
  const stat = statSync(place)
  if (!stat.isDirectory()) return stat.mtimeMs
  return Math.max(0, ...readdirSync(place).map((name) => newestMs(path.join(place, name))))
}
