/**
 * Features of PostgreSQL only: opening a wrong database, two openings at once, contention, servers that restart,
 * reject writes, or end sessions.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import t, { type Test } from 'tap'
import { Session } from '../../../src/cluster/postgresql/session.ts'
import { parsePostgresUrl } from '../../../src/cluster/postgresql/url.ts'
import { ConfigError } from '../../../src/platform/config-error.ts'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import { childFlags } from '../../support/child-flags.ts'
import { startPostgres } from '../../support/postgres.ts'
import { selfSignedCertificate } from '../../support/tls.ts'
import { until } from '../../support/until.ts'
import { keepOn, rowsOf, serverDatabase } from './database.ts'
import { newPipe, newWorkspace, open, openFile, pullDestination, type TestFile, testFile } from './fixture.ts'

const server = await startPostgres()
t.teardown(() => server.stop())
keepOn(server)

const unavailable = { name: 'StorageUnavailableError' }

function urlOf({ spec }: Pick<TestFile, 'spec'>): URL {
  if (spec.kind !== 'postgresql') throw new Error('not on a server')
  return new URL(spec.url)
}

async function madeDatabase(t: Test): Promise<TestFile & { name: string; url: URL }> {
  const options = testFile(t)
  await options.ready()
  return { ...options, name: urlOf(options).pathname.slice(1), url: urlOf(options) }
}

/** The line of a ConfigError; it holds no password. */
async function refusal(
  t: Test,
  url: URL | string,
  sealingKey: Uint8Array = randomBytes(32),
): Promise<string> {
  const error: unknown = await openMetadata({ kind: 'postgresql', url: String(url) }, sealingKey).then(
    (metadata) => metadata.close(),
    (reason: unknown) => reason,
  )
  t.ok(error instanceof ConfigError, String(error))
  const message = error instanceof Error ? error.message : ''
  t.notMatch(message, /\n/, 'one line')
  t.notOk(message.includes(server.password), 'no password')
  t.notOk(message.includes('wr0ng'), 'no password')
  return message
}

function changed(url: URL, change: (url: URL) => void): URL {
  const other = new URL(url)
  change(other)
  return other
}

t.test('what is wrong with the server or the way to it is said in one line', async (t) => {
  const { url, name } = await madeDatabase(t)
  const wrong = changed(url, (other) => {
    other.password = 'wr0ng'
  })
  t.match(await refusal(t, wrong), /password authentication failed.*check user and password/)
  const nowhere = changed(url, (other) => {
    other.pathname = 'nowhere'
  })
  t.match(await refusal(t, nowhere), /database "nowhere" does not exist .*create it/)
  await server.query(`CREATE DATABASE ascii_${name} ENCODING 'SQL_ASCII' TEMPLATE template0`)
  const ascii = changed(url, (other) => {
    other.pathname = `ascii_${name}`
  })
  t.match(await refusal(t, ascii), /encoding is SQL_ASCII: create the database with ENCODING 'UTF8'/)
  await server.query(`CREATE ROLE guest LOGIN PASSWORD 'guest-pw'`)
  const guest = changed(url, (other) => {
    other.username = 'guest'
    other.password = 'guest-pw'
  })
  t.match(await refusal(t, guest), /permission denied for schema public .*have the right to create them/)
  await server.query(`ALTER DATABASE ${name} SET synchronous_commit = off`)
  t.match(await refusal(t, url), /synchronous_commit is off, so changes would not be durable/)
  await server.query(`ALTER DATABASE ${name} RESET synchronous_commit`)
  const metadata = await openMetadata({ kind: 'postgresql', url: url.href }, randomBytes(32))
  await metadata.close()
})

t.test('a server that is none, or is not there, is unavailable: it may come', async (t) => {
  const { url } = await madeDatabase(t)
  const silent = createServer((socket) => socket.resume().end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(
    0,
    '127.0.0.1',
  )
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const { port } = silent.address() as { port: number }
  const other = changed(url, (other) => {
    other.port = String(port)
  })
  await t.rejects(openMetadata({ kind: 'postgresql', url: other.href }, randomBytes(32)), unavailable)
  silent.close()
  await once(silent, 'close')
  await t.rejects(openMetadata({ kind: 'postgresql', url: other.href }, randomBytes(32)), {
    ...unavailable,
    message: /ECONNREFUSED/,
  })
})

t.test('the URL says how the server is known', async (t) => {
  const { url, dir } = await madeDatabase(t)
  const refused: [change: (url: URL) => void, message: RegExp][] = [
    [
      (other) => other.searchParams.set('sslmode', 'prefer'),
      /sslmode: use disable, require, verify-ca, verify-full/,
    ],
    [(other) => other.searchParams.set('sslmod', 'require'), /parameter "sslmod" is not known/],
    [(other) => other.searchParams.set('sslmode', 'verify-ca'), /verify-ca needs sslrootcert/],
    [
      (other) => other.searchParams.set('sslrootcert', '/nowhere'),
      /sslrootcert: \/nowhere cannot be read|not/,
    ],
  ]
  for (const [change, message] of refused.slice(0, 3))
    t.match(await refusal(t, changed(url, change)), message)
  t.match(
    await refusal(t, 'mysql://user:wr0ng@host/db'),
    /use postgres:\/\/user:password@host:port\/database/,
  )
  const secure = changed(url, (other) => {
    other.hostname = '127.0.0.2'
  })
  const verified = changed(secure, (other) => other.searchParams.set('sslmode', 'verify-full'))
  t.match(await refusal(t, verified), /self.signed certificate.*check sslmode and sslrootcert/)
  const file = path.join(dir, 'other.crt')
  writeFileSync(file, selfSignedCertificate().certificate)
  verified.searchParams.set('sslrootcert', file)
  t.match(await refusal(t, verified), /certificate.*check sslmode and sslrootcert/, 'of another authority')
  const metadata = await openMetadata({ kind: 'postgresql', url: secure.href }, randomBytes(32))
  t.teardown(() => metadata.close())
  const [row] = await server.query(
    `SELECT count(*) FILTER (WHERE ssl)::int AS secure, count(*)::int AS all FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = $1`,
    [secure.pathname.slice(1)],
  )
  t.ok(Number(row?.all) > 0 && row?.secure === row?.all, 'another machine is spoken to through TLS')
})

t.test(
  'a schema of a newer version and another sealing key are rejected, and nothing is changed',
  async (t) => {
    const options = await madeDatabase(t)
    const first = await openFile(options)
    await newWorkspace(first, 'default')
    await first.close()
    const other = await refusal(t, options.url)
    t.match(
      other,
      /^sealing key: it did not encrypt the secrets of PostgreSQL database metadata_\d+ at 127\.0\.0\.1:\d+/,
    )
    await rowsOf(options, `INSERT INTO metadata_migrations VALUES (99, 'from the future', 0)`)
    t.match(await refusal(t, options.url, options.sealingKey), /was written by a newer pipectl \(format 99,/)
    await rowsOf(options, `DELETE FROM metadata_migrations WHERE number = 99`)
    const again = await open(t, options)
    t.equal((await again.workspaces.list()).length, 1)
  },
)

t.test('several processes may open a new database at once: one makes the tables, all work', async (t) => {
  const options = await madeDatabase(t)
  const names = ['one', 'two', 'three']
  const script = new URL('./workspace-child.ts', import.meta.url).pathname
  const codes = names.map(async (name) => {
    const values = [JSON.stringify(options.spec), options.sealingKey.toString('hex'), name]
    const child = spawn(process.execPath, [...childFlags, script, ...values], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    return (await once(child, 'exit'))[0]
  })
  t.strictSame(await Promise.all(codes), [0, 0, 0])
  const metadata = await open(t, options)
  const made = (await metadata.workspaces.list()).map((workspace) => workspace.name)
  t.strictSame(made.sort(), names.sort())
})

t.test('a change under way when the database is closed is finished', async (t) => {
  const options = await madeDatabase(t)
  const metadata = await openFile(options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const creating = Array.from({ length: 12 }, (_, index) => newPipe(metadata, workspaceId, `pipe-${index}`))
  await metadata.close()
  await Promise.all(creating)
  const again = await open(t, options)
  t.equal((await again.pipes.list(workspaceId)).length, 12)
})

t.test('many who read, decide and write the same at once: none is lost, none is refused', async (t) => {
  const options = await madeDatabase(t)
  const handles = await Promise.all([1, 2, 3].map(() => open(t, options)))
  const workspaceId = await newWorkspace(handles[0]!, 'default')
  const { pipe_id: pipeId } = await newPipe(handles[0]!, workspaceId, 'events', { pipe_description: '' })
  const each = 30
  const longer = (current: { pipe_description: string }) => ({
    pipe_description: `${current.pipe_description}.`,
  })
  const hour = { pipeId, hourMs: 0, requests: 1, records: 1, bytes: 1, rejected: 0, lastIngestMs: 1 }
  await Promise.all(
    handles.flatMap((metadata) =>
      Array.from({ length: each }, async () => {
        await metadata.pipes.update({ workspaceId, pipeId }, longer)
        await metadata.usage.addIngest([hour], [])
      }),
    ),
  )
  t.equal((await handles[1]!.pipes.get({ workspaceId, pipeId }))?.pipe_description.length, 3 * each)
  t.equal((await handles[2]!.usage.byPipe(workspaceId, 0))[pipeId]?.ingest_records, 3 * each)
  const query = {
    limit: 500,
    after: null,
    operation: 'updatePipe',
    resourceId: null,
    sinceMs: null,
    pipeIds: null,
  }
  const { entries } = await handles[0]!.audit.list(workspaceId, query)
  t.equal(entries.length, 3 * each, 'each has its entry')
})

t.test('any text comes back as it was given, also with a NUL', async (t) => {
  const options = await madeDatabase(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  for (const [index, text] of ['\0', 'a\0b\0', '\u{10FFFE}0', '\u{10FFFE}\0\u{10FFFE}1', 'é\0🙂'].entries()) {
    const made = await newPipe(metadata, workspaceId, `pipe-${index}`, {
      pipe_description: text,
      pipe_ingest_ts_field: text,
    })
    t.strictSame(await metadata.pipes.get({ workspaceId, pipeId: made.pipe_id }), made)
    t.equal(made.pipe_description, text)
    const { destination_id } = await metadata.destinations.create(
      { workspaceId, pipeId: made.pipe_id },
      pullDestination(),
    )
    const row = (await metadata.laneStore.load(destination_id))!
    const lastError = {
      ...{ class: 'transient' as const, code: 'x', message: text, fault: null },
      ...{ recordIndex: null, column: text, value: text },
    }
    await metadata.laneStore.save([{ ...row, lastError }], [])
    t.strictSame((await metadata.laneStore.load(destination_id))?.lastError, lastError)
  }
})

t.test(
  'the version is another one after any change, by whichever handle, and the same without',
  async (t) => {
    const options = await madeDatabase(t)
    const [first, second] = [await open(t, options), await open(t, options)]
    const before = await first.version()
    t.equal(await first.version(), before)
    await newWorkspace(second, 'default')
    const after = await first.version()
    t.not(after, before)
    t.equal(await first.version(), after)
  },
)

t.test('the server restarts: what needs it is unavailable meanwhile, then everything goes on', async (t) => {
  const options = await madeDatabase(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  await Promise.all([1, 2, 3].map((number) => newPipe(metadata, workspaceId, `before-${number}`)))
  for (const end of [() => server.shutDown(), () => server.halt()]) {
    await end()
    await t.rejects(metadata.pipes.list(workspaceId), unavailable)
    await t.rejects(newPipe(metadata, workspaceId, 'meanwhile'), unavailable)
    await t.rejects(metadata.version(), unavailable)
    await server.start()
    t.equal((await metadata.pipes.list(workspaceId)).length, 3, 'at once, without opening it again')
  }
  await newPipe(metadata, workspaceId, 'after')
})

t.test('sessions that the server ends, idle or not, are replaced', async (t) => {
  const options = await madeDatabase(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  await Promise.all([1, 2, 3].map(() => metadata.pipes.list(workspaceId)))
  const end = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1'
  const ended = await server.query(end, [options.name])
  t.ok(ended.length >= 2, 'control: there were some')
  await until('it goes on', () => metadata.pipes.list(workspaceId).catch(() => null))
  await newPipe(metadata, workspaceId, 'after')
})

t.test('a server that takes no writes for a while: unavailable, and on again by itself', async (t) => {
  const options = await madeDatabase(t)
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  await server.query(`ALTER DATABASE ${options.name} SET default_transaction_read_only = on`)
  await server.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [
    options.name,
  ])
  await until('writes are refused', async () => {
    const error = await newPipe(metadata, workspaceId, 'x').then(
      () => null,
      (reason: Error) => reason,
    )
    return error?.name === 'StorageUnavailableError' && /25006/.test(error.message)
  })
  t.strictSame(await metadata.pipes.list(workspaceId), [], 'what is there can be read')
  await server.query(`ALTER DATABASE ${options.name} RESET default_transaction_read_only`)
  await until('writes are taken', () => newPipe(metadata, workspaceId, 'x').catch(() => null))
})

t.test('a server that stands still: a statement ends by itself', { timeout: 60_000 }, async (t) => {
  const { url } = await madeDatabase(t)
  const session = await Session.open(parsePostgresUrl(url.href), { statementMs: 100, lockMs: 100 })
  t.teardown(() => session.close())
  t.strictSame((await session.query('SELECT 1 AS one')).rows, [{ one: 1 }], 'control')
  server.pause()
  try {
    await t.rejects(session.query('SELECT 1'))
  } finally {
    server.resume()
  }
  t.ok(session.isDead)
})

t.test('all that is in use stays bounded, however many ask at once', async (t) => {
  const options = { ...testFile(t), ...serverDatabase(server) }
  const metadata = await open(t, options)
  const workspaceId = await newWorkspace(metadata, 'default')
  await Promise.all(Array.from({ length: 200 }, () => metadata.pipes.list(workspaceId)))
  const [row] = await server.query('SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = $1', [
    urlOf(options).pathname.slice(1),
  ])
  t.ok(Number(row?.count) <= 8, `${row?.count} sessions`)
})
