/** The fault library sees what strace sees, and does to a program what the plan says. Linux, glibc, gcc and strace. */
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import {
  type FaultyDisk,
  faultyDisk,
  type Kind,
  kinds,
  type Plan,
  soundDisk,
  unnumbered,
} from '../../support/faults/library.ts'
import { seenByStrace, underStrace } from '../../support/faults/strace.ts'
import { readTrace } from '../../support/faults/trace.ts'

interface World {
  root: string
  disk: FaultyDisk
  file(name: string): string
  /** Runs a module with `fs` and `at(name)`; returns what it prints. */
  run(code: string, env?: Record<string, string>): { signal: NodeJS.Signals | null; lines: string[] }
}

function openWorld(t: Test, trace = false): World {
  const parent = mkdtempSync(path.join(os.tmpdir(), 'pipectl-faults-'))
  t.teardown(() => rmSync(parent, { recursive: true, force: true }))
  const root = path.join(parent, 'root')
  mkdirSync(root)
  const disk = faultyDisk(root, path.join(parent, 'work'), { trace })
  const prelude = `import fs from 'node:fs'
    const at = (name) => ${JSON.stringify(root)} + '/' + name
    const attempt = (work) => { try { work(); console.log('ok') } catch (error) { console.log(error.code) } }
  `
  return {
    root,
    disk,
    file: (name) => path.join(root, name),
    run(code, env = disk.env) {
      const args = ['--input-type=module', '-e', prelude + code]
      const { signal, stdout, stderr } = spawnSync(process.execPath, args, {
        env: { ...process.env, ...env },
        encoding: 'utf8',
      })
      t.equal(stderr, '')
      return { signal, lines: stdout.split('\n').slice(0, -1) }
    },
  }
}

const fourWrites = `const fd = fs.openSync(at('file'), 'w')
  for (const text of ['one', 'two', 'three', 'four']) attempt(() => fs.writeSync(fd, text))`

t.test('every kind of call of Node and SQLite is counted, as strace counts it', (t) => {
  const { root, disk } = openWorld(t)
  const output = path.join(path.dirname(root), 'strace')
  const program = fileURLToPath(new URL('./every-call.mjs', import.meta.url))
  const [command, ...args] = [...underStrace(output, disk.env), process.execPath, program, root]
  t.equal(spawnSync(command ?? '', args, { stdio: 'inherit' }).status, 0)
  const { byKind } = disk.counts()
  const counted = kinds.filter((kind) => kind === 'read' || !unnumbered.includes(kind))
  t.same(Object.fromEntries(seenByStrace(output, root)), pick(byKind, counted))
  for (const kind of counted) t.ok(byKind[kind] > 0, `the program makes a ${kind}`)
  t.end()
})

function pick(counts: Record<Kind, number>, names: readonly Kind[]): Record<string, number> {
  return Object.fromEntries(names.map((kind) => [kind, counts[kind]]))
}

t.test('the N-th call fails, once or from then on, with the error of the plan', (t) => {
  const cases: [Plan, string[], string][] = [
    [{ at: 3, error: 'EIO' }, ['ok', 'EIO', 'ok', 'ok'], 'onethreefour'],
    [{ at: 3, error: 'ENOSPC', until: 'always' }, ['ok', 'ENOSPC', 'ENOSPC', 'ENOSPC'], 'one'],
    [{ at: 4, error: 'EIO', kinds: ['write'] }, ['ok', 'ok', 'ok', 'EIO'], 'onetwothree'],
    [{ at: 2, error: 'EIO', match: 'fil' }, ['EIO', 'ok', 'ok', 'ok'], 'twothreefour'],
    [{ at: 1, error: 'EIO', match: 'elsewhere' }, ['ok', 'ok', 'ok', 'ok'], 'onetwothreefour'],
  ]
  for (const [plan, lines, content] of cases) {
    const { disk, run, file } = openWorld(t)
    disk.plan(plan)
    t.same(run(fourWrites).lines, lines)
    t.equal(readFileSync(file('file'), 'utf8'), content)
    t.equal(disk.counts().hits, lines.filter((line) => line !== 'ok').length)
  }
  t.end()
})

t.test('opening, syncing, renaming, removing and making fail too', (t) => {
  const { disk, run } = openWorld(t)
  disk.plan({
    at: 1,
    error: 'EIO',
    until: 'always',
    kinds: ['sync', 'rename', 'unlink', 'mkdir', 'truncate'],
  })
  const { lines } = run(`const fd = fs.openSync(at('file'), 'w')
    attempt(() => fs.fsyncSync(fd))
    attempt(() => fs.fsyncSync(fs.openSync(at(''), 'r')))
    attempt(() => fs.ftruncateSync(fd, 0))
    attempt(() => fs.renameSync(at('file'), at('other')))
    attempt(() => fs.unlinkSync(at('file')))
    attempt(() => fs.mkdirSync(at('directory')))
    attempt(() => fs.openSync(at('another'), 'w'))`)
  t.same(lines, ['EIO', 'EIO', 'EIO', 'EIO', 'EIO', 'EIO', 'ok'])
  t.match(disk.counts().lastHit, /^mkdir .*\/root\/directory$/)
  t.end()
})

t.test('the process is killed before, half-way through and after the N-th call', (t) => {
  for (const [kill, content] of [
    ['before', 'onetwo'],
    ['half', 'onetwoth'],
    ['after', 'onetwothree'],
  ] as const) {
    const { disk, run, file } = openWorld(t)
    disk.plan({ at: 4, kill })
    t.equal(run(fourWrites).signal, 'SIGKILL')
    t.equal(readFileSync(file('file'), 'utf8'), content)
    t.same(disk.counts().hits, 1, 'the counts survive the process')
  }
  t.end()
})

t.test('a new plan takes effect while the program runs and starts the numbering again', (t) => {
  const { disk, run } = openWorld(t)
  const control = JSON.stringify(disk.env.FAULTS_CONTROL)
  const { lines } = run(`const fd = fs.openSync(at('file'), 'w')
    attempt(() => fs.writeSync(fd, 'one'))
    fs.writeFileSync(${control}, 'at 2\\nerror EIO\\n')
    attempt(() => fs.writeSync(fd, 'two'))
    attempt(() => fs.writeSync(fd, 'three'))
    attempt(() => fs.writeSync(fd, 'four'))`)
  t.same(lines, ['ok', 'ok', 'EIO', 'ok'])
  t.end()
})

t.test('a full disk: nothing grows past its last block, what does not grow works, no space is shown', (t) => {
  const { disk, run, file } = openWorld(t)
  const full = JSON.stringify(disk.env.FAULTS_FULL)
  const { lines } = run(`fs.writeFileSync(at('file'), 'x'.repeat(4000))
    const fd = fs.openSync(at('file'), 'r+')
    fs.writeFileSync(${full}, '')
    console.log(fs.statfsSync(at('')).bavail)
    attempt(() => fs.writeSync(fd, 'in place', 100))
    attempt(() => console.log(fs.writeSync(fd, 'y'.repeat(500), 4000)))
    attempt(() => fs.writeSync(fd, 'z', 4096))
    attempt(() => fs.mkdirSync(at('directory')))
    attempt(() => fs.mkdirSync(at('file')))
    attempt(() => fs.unlinkSync(at('nothing')))
    fs.rmSync(${full})
    attempt(() => fs.writeSync(fd, 'z', 4096))
    console.log(fs.statfsSync(at('')).bavail > 0)`)
  t.same(lines, ['0', 'ok', '96', 'ok', 'ENOSPC', 'ENOSPC', 'EEXIST', 'ENOENT', 'ok', 'true'])
  t.equal(statSync(file('file')).size, 4097)
  t.ok(statfsSync(file('file')).bavail > 0, 'only that process sees a full disk')
  t.end()
})

t.test('the disk fills up at the N-th call and has room again with the next plan', (t) => {
  const { disk, run } = openWorld(t)
  disk.plan({ at: 3, full: 'yes' })
  const control = JSON.stringify(disk.controlFile)
  const { lines } = run(`const fd = fs.openSync(at('file'), 'w')
    for (let n = 0; n < 3; n += 1) attempt(() => fs.writeSync(fd, 'x'.repeat(4096)))
    fs.writeFileSync(${control}, '')
    attempt(() => fs.writeSync(fd, 'x'.repeat(4096)))`)
  t.same(lines, ['ok', 'ENOSPC', 'ENOSPC', 'ok'])
  t.end()
})

t.test('the disk shows the size that it is given', (t) => {
  const { root, run } = openWorld(t)
  const small = soundDisk(root, 1024 * 1024)
  const shown = run(
    `const { bsize, blocks, bavail } = fs.statfsSync(at(''))
    console.log(bsize * blocks, bsize * bavail)`,
    small,
  )
  t.same(shown.lines, ['1048576 1048576'])
  t.end()
})

t.test('the record has every call in order, with bytes, offsets, names and what the program says', (t) => {
  const { root, disk, run } = openWorld(t, true)
  run(`const fd = fs.openSync(at('file'), 'w')
    fs.writeSync(fd, 'one')
    fs.writeSync(fd, 'two', 10)
    console.log('acknowledged')
    fs.fsyncSync(fd)
    fs.ftruncateSync(fd, 5)
    fs.renameSync(at('file'), at('other'))`)
  const calls = readTrace(disk.traceFile).map(({ kind, path: file, second, offset, data }) =>
    [kind, path.relative(root, file), path.relative(root, second), offset, data.toString()].slice(0, 5),
  )
  const none = path.relative(root, '')
  t.same(calls, [
    ['create', 'file', none, 0, ''],
    ['write', 'file', none, 0, 'one'],
    ['write', 'file', none, 10, 'two'],
    ['mark', none, none, 0, 'acknowledged\n'],
    ['sync', 'file', none, 0, ''],
    ['truncate', 'file', none, 5, ''],
    ['rename', 'file', 'other', 0, ''],
  ])
  t.end()
})

t.test('a bad sector fails reads that reach it, moves with its file and not into a copy', (t) => {
  const { disk, run, file } = openWorld(t)
  writeFileSync(file('file'), Buffer.alloc(12_000, 'x'))
  disk.setBadSectors([{ file: file('file'), offset: 4096, bytes: 512 }])
  const { lines } = run(`const into = Buffer.alloc(4096)
    const fd = fs.openSync(at('file'), 'r+')
    const read = (position, bytes) => attempt(() => console.log(fs.readSync(fd, into, 0, bytes, position)))
    read(0, 4096)
    read(4000, 4096)
    read(4096, 1)
    read(4607, 1)
    read(4608, 4096)
    attempt(() => fs.readFileSync(at('file')))
    attempt(() => fs.writeSync(fd, 'written all the same', 4096))
    fs.renameSync(at('file'), at('moved'))
    attempt(() => fs.readFileSync(at('moved')))
    fs.writeFileSync(at('file'), 'y'.repeat(9000))
    attempt(() => fs.readFileSync(at('file')))`)
  t.same(lines, ['4096', 'ok', '96', 'ok', 'EIO', 'EIO', '4096', 'ok', 'EIO', 'ok', 'EIO', 'ok'])
  disk.setBadSectors([])
  t.same(run(`attempt(() => fs.readFileSync(at('moved')))`).lines, ['ok'])
  t.end()
})

t.test('a socket with the number of a file that was closed is read as a socket', (t) => {
  const { disk, run, file } = openWorld(t)
  writeFileSync(file('file'), Buffer.alloc(9000, 'x'))
  disk.setBadSectors([{ file: file('file'), offset: 4096, bytes: 512 }])
  const { lines } = run(`const { createServer, connect } = await import('node:net')
    const server = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const files = Array.from({ length: 20 }, () => fs.openSync(at('file'), 'r'))
    for (const fd of files.slice(0, 10)) fs.closeSync(fd)
    for (const fd of files.slice(10)) await new Promise((resolve) => fs.close(fd, resolve))
    const echoed = (text) => new Promise((resolve) => {
      const socket = connect(server.address().port, '127.0.0.1')
      socket.once('data', (data) => resolve(String(data))).once('error', ({ code }) => resolve(code))
      socket.write(text)
    })
    for (const text of await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map(echoed))) console.log(text)
    process.exit()`)
  t.same(lines, ['a', 'b', 'c', 'd', 'e', 'f'])
  t.end()
})

t.test('trap: fs.copyFile does not notice a bad sector', (t) => {
  // libuv takes an EIO of copy_file_range and sendfile for "not supported", and that of pread for "not seekable": it
  // goes on with read() from the file's beginning. A copy of a file on a bad disk is made by reading it.
  const { disk, run, file } = openWorld(t)
  const content = Buffer.concat([Buffer.alloc(4096, 'a'), Buffer.alloc(4096, 'b'), Buffer.alloc(4096, 'c')])
  writeFileSync(file('file'), content)
  disk.setBadSectors([{ file: file('file'), offset: 4096, bytes: 4096 }])
  t.same(run(`attempt(() => fs.copyFileSync(at('file'), at('copy')))`).lines, ['ok'])
  t.notOk(readFileSync(file('copy')).equals(content))
  t.end()
})

t.test(
  'SQLite reports the page in a bad sector as corrupt (it does not tell EIO apart) and reads the others',
  (t) => {
    const { disk, run, file } = openWorld(t)
    const db = new Database(file('log.db'))
    db.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, x)')
    for (let id = 1; id <= 20; id += 1) db.prepare('INSERT INTO t VALUES (?, ?)').run(id, 'x'.repeat(2000))
    db.close()
    disk.setBadSectors([{ file: file('log.db'), offset: 3 * 4096, bytes: 4096 }])
    const { lines } =
      run(`const { default: Database } = await import(${JSON.stringify(import.meta.resolve('better-sqlite3'))})
    const db = new Database(at('log.db'), { readonly: true })
    const row = db.prepare('SELECT x FROM t WHERE id = ?')
    for (let id = 1; id <= 20; id += 1) attempt(() => row.get(id))`)
    t.same([...new Set(lines)].sort(), ['SQLITE_CORRUPT', 'ok'])
    t.equal(lines.filter((line) => line !== 'ok').length, 2)
    t.end()
  },
)

t.test('the N-th read fails where a plan names reads', (t) => {
  const { disk, run, file } = openWorld(t)
  writeFileSync(file('file'), 'content')
  disk.plan({ at: 2, error: 'EIO', kinds: ['read'] })
  const { lines } = run(`const fd = fs.openSync(at('file'), 'r')
    for (let n = 0; n < 3; n += 1) attempt(() => fs.readSync(fd, Buffer.alloc(1)))`)
  t.same(lines, ['ok', 'EIO', 'ok'])
  t.end()
})

t.test('control: without a plan nothing fails, and what lies beside the directory is not touched', (t) => {
  const { root, disk, run, file } = openWorld(t)
  t.same(run(fourWrites).lines, ['ok', 'ok', 'ok', 'ok'])
  disk.plan({ at: 1, error: 'EIO', until: 'always' })
  const beside = JSON.stringify(`${root}-beside`)
  t.same(run(`attempt(() => fs.writeFileSync(${beside}, 'x'))`).lines, ['ok'])
  t.ok(existsSync(file('file')))
  t.equal(disk.counts().hits, 0)
  t.end()
})
