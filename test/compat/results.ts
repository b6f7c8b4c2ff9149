/**
 * What the compatibility tests found: one file for each product, below node_modules/.cache. `npm run docs:compatibility` makes the
 * table of docs/compatibility.md from them.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { ProductId } from './products.ts'

export interface Result {
  /** As the product reports it. */
  version: string
  /** YYYY-MM-DD, UTC. */
  day: string
  passed: boolean
}

const folder = fileURLToPath(new URL('../../node_modules/.cache/pipectl-compatibility/', import.meta.url))

/** Runs a test about a product, and records its result and the version that `run` returns. */
export async function tried(t: Test, id: ProductId, run: (t: Test) => Promise<string>): Promise<void> {
  let version: string | null = null
  await t.test(id, async (t) => {
    version = await run(t)
    record(id, version, t.passing())
  })
  if (version === null) record(id, 'unknown', false)
}

function record(id: ProductId, version: string, passed: boolean): void {
  const result: Result = { version, day: new Date().toISOString().slice(0, 10), passed }
  mkdirSync(folder, { recursive: true })
  const file = path.join(folder, `${id}.json`)
  writeFileSync(`${file}.${process.pid}`, JSON.stringify(result))
  renameSync(`${file}.${process.pid}`, file)
}

/** Throws if the product's test did not run here. */
export function resultOf(id: ProductId): Result {
  return JSON.parse(readFileSync(path.join(folder, `${id}.json`), 'utf8'))
}

/** The first version number in a text. */
export function versionIn(text: string): string {
  const version = /\d+\.\d+(\.\d+)*/.exec(text)?.[0]
  if (version === undefined) throw new Error(`no version in: ${text}`)
  return version
}
