/** better-sqlite3 as `npm ci` leaves it: its commits are an fdatasync each. */
import { spawnSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

const checkout = path.resolve(import.meta.dirname, '../..')
const installed = path.join(checkout, 'node_modules/better-sqlite3')
const directory = t.testdir()
const folder = path.join(directory, 'better-sqlite3')
const addon = path.join(folder, 'build/Release/better_sqlite3.node')

const commits = `
  const Database = require(${JSON.stringify(installed)})
  const db = new Database(process.argv[1], { nativeBinding: ${JSON.stringify(addon)} })
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec('CREATE TABLE message (body TEXT)')
  for (let n = 0; n < 10; n += 1) db.prepare('INSERT INTO message VALUES (?)').run('text')
`

for (const name of ['src', 'deps', 'binding.gyp', 'package.json'])
  cpSync(path.join(installed, name), path.join(folder, name), { recursive: true })
mkdirSync(path.dirname(addon), { recursive: true })

function compile(env = process.env): { status: number | null; stderr: string } {
  const script = path.join(checkout, 'vendor/compile-sqlite.mjs')
  return spawnSync(process.execPath, [script, folder], { encoding: 'utf8', env })
}

t.test('where it does not compile, the binary that is there stays', async (t) => {
  writeFileSync(addon, 'a binary that was downloaded')
  const { status, stderr } = compile({ ...process.env, CC: 'false', CXX: 'false' })
  t.equal(status, 0)
  t.match(stderr, 'better-sqlite3 is not compiled with fdatasync')
  t.equal(readFileSync(addon, 'utf8'), 'a binary that was downloaded')
})

t.test('a binary without fdatasync is compiled again, and every commit is an fdatasync', async (t) => {
  const { status, stderr } = compile()
  t.same([status, stderr], [0, ''])
  const trace = path.join(directory, 'trace')
  const strace = ['-f', '-o', trace, '-e', 'trace=fsync,fdatasync']
  const db = path.join(directory, 'log.db')
  t.equal(spawnSync('strace', [...strace, process.execPath, '-e', commits, db]).status, 0)
  const calls = readFileSync(trace, 'utf8')
  t.ok(calls.split('fdatasync(').length > 10)
  t.notMatch(calls, / fsync\(/)
})

t.test('a binary with fdatasync stays as it is', async (t) => {
  const copy = path.join(directory, 'before.node')
  copyFileSync(addon, copy)
  t.equal(compile({ ...process.env, CC: 'false', CXX: 'false' }).stderr, '')
  t.ok(readFileSync(addon).equals(readFileSync(copy)))
})
