/** The generated tables of the guides: the committed pages are what the script makes of the program's own tables. */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { destinationTypes, wordsOf } from '../../src/contract/destination-words.ts'

const root = new URL('../../', import.meta.url).pathname
const script = path.join(root, 'vendor/build-reference.mjs')
const docs = path.join(root, 'docs')
const pages = readdirSync(docs).filter((name) => name.endsWith('.md'))
const read = (folder: string, name: string) => readFileSync(path.join(folder, name), 'utf8')

function copyOf(t: Test): string {
  const folder = path.join(t.testdir(), 'docs')
  mkdirSync(folder)
  for (const name of pages) cpSync(path.join(docs, name), path.join(folder, name))
  return folder
}

t.test('the committed tables are those of the program; `npm run docs:tables` writes them', async (t) => {
  const folder = copyOf(t)
  execFileSync(process.execPath, [script, folder])
  for (const name of pages)
    t.ok(read(folder, name) === read(docs, name), `${name} is current, or run npm run docs:tables`)
  const filled = pages.filter((name) => read(docs, name).includes('<!-- generated: '))
  for (const name of ['cli.md', 'errors.md', 'http-api.md', 'settings.md']) t.ok(filled.includes(name), name)
  for (const type of destinationTypes) {
    const { kind, guides } = wordsOf(type)
    const table = `<!-- generated: keys-of-${kind} -->`
    t.ok(
      guides.some(([name]) => read(docs, name).includes(table)),
      `a guide of ${type} has ${table}`,
    )
  }
})

t.test('negative control: a row that is missing or changed is written again', async (t) => {
  const folder = copyOf(t)
  for (const [name, row] of [
    ['settings.md', /^\| `listen` .*\n/m],
    ['errors.md', /^\| `pipe_not_found` .*\n/m],
    ['http-api.md', /^\| `POST \/v1\/ingest\/\{pipe_id\}` .*\n/m],
    ['cli.md', /^\| `pipectl doctor` .*\n/m],
  ] as const) {
    t.match(read(docs, name), row)
    writeFileSync(path.join(folder, name), read(docs, name).replace(row, ''))
  }
  execFileSync(process.execPath, [script, folder])
  for (const name of pages) t.equal(read(folder, name), read(docs, name))
})

t.test('a page that asks for an unknown table ends the script', async (t) => {
  const folder = path.join(t.testdir(), 'docs')
  mkdirSync(folder)
  writeFileSync(path.join(folder, 'one.md'), '<!-- generated: none -->\n<!-- end -->\n')
  const { status, stderr } = spawnSync(process.execPath, [script, folder], { encoding: 'utf8' })
  t.not(status, 0)
  t.match(stderr, /there is no generated section none/)
})
