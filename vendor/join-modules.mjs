/**
 * Part of `npm run build`: packages of many small modules become one file each below dist/joined, and the built program
 * imports those (see transpile.mjs). The bundled program of a package has its own way: see bundle-program.mjs.
 *
 * Node opens, resolves and compiles each module by itself: typebox and kysely alone are 600 files, which both the main
 * and the delivery thread load. Joined they take 0.1 s of CPU instead of 0.5 s, in each thread and at each start; the
 * others, which are 400 files in all threads together, 0.35 s less at each start of the daemon.
 */
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'
import { exportsOf } from './exports-of.mjs'

export const joinedNames = [
  ...['typebox', 'typebox/schema', 'kysely', 'uuid', 'commander'],
  ...['pino', 'prom-client', 'hyper-express', 'undici', 'maxmind', 'ipaddr.js', 'smol-toml'],
]

const root = path.resolve(import.meta.dirname, '..')
const dist = path.join(root, 'dist')
const joined = path.join(dist, 'joined')
export const fileOfJoined = (name) => path.join(joined, `${name.replaceAll(/[/.]/g, '-')}.js`)

/** Made again when the packages or this file have changed. Together, in one call: what several packages share (typebox's settings) stays one instance. */
export async function joinModules() {
  if (isUpToDate()) return
  rmSync(joined, { recursive: true, force: true })
  mkdirSync(joined, { recursive: true })
  const entryPoints = []
  for (const name of joinedNames) {
    const entry = fileOfJoined(name)
    writeFileSync(entry, exportsOf(name, await import(name)))
    entryPoints.push(entry)
  }
  await build({
    ...{
      entryPoints,
      outdir: joined,
      allowOverwrite: true,
      bundle: true,
      splitting: true,
      logLevel: 'warning',
    },
    ...{
      format: 'esm',
      platform: 'node',
      target: 'node20',
      legalComments: 'inline',
      // Node keeps the text of each module in memory, in every thread that loads it. Lines stay: they are in stack traces.
      minifyWhitespace: true,
      lineLimit: 120,
      chunkNames: 'shared-[hash]',
      // Its native binding is looked for when it is loaded.
      external: ['uWebSockets.js'],
      // CommonJS modules of Node's own are asked for in their own way.
      banner: {
        js: "import { createRequire as makeRequire } from 'node:module'\nconst require = makeRequire(import.meta.url)",
      },
    },
  })
}

function isUpToDate() {
  const made = joinedNames.map(
    (name) => statSync(fileOfJoined(name), { throwIfNoEntry: false })?.mtimeMs ?? 0,
  )
  const inputs = [import.meta.filename, path.join(root, 'package-lock.json')]
  return inputs.every((input) => statSync(input).mtimeMs < Math.min(...made))
}
