/**
 * Certificates to and from database servers: `tls_verify`, `tls_ca`, `tls_cert`, `tls_key`, with real servers that change their
 * certificate and ask for ours. Who is not the one that was asked for is refused before the log-in.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { openssl, TestAuthority } from '../support/certificates.ts'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { startDaemon } from '../support/daemon.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { greeting, honestMysql } from '../support/rogue/mysql.ts'
import { honestPostgres } from '../support/rogue/postgresql.ts'
import { type Fault, honestly, startRogue } from '../support/rogue/rogue-server.ts'
import { until } from '../support/until.ts'

const authority = new TestAuthority('authority of the databases')
const stranger = new TestAuthority('another authority')
const forLocalhost = authority.issue({ names: 'DNS:localhost' })
const ours = authority.issue({ commonName: 'certified', names: 'DNS:client.test' })
const [postgres, mariadb] = await Promise.all([
  startPostgres({ clientCa: authority.ca }),
  startMariadb({ tls: true, clientCa: authority.ca }),
])
const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  await Promise.all([postgres.stop(), mariadb.stop()])
  removeHome(home)
  authority.close()
  stranger.close()
})
const closes: Fault = (socket) => void socket.end()
const keyLine = ours.key.split('\n')[1]!

/** It says so when it is asked for TLS. */
function withoutTls() {
  const session = honestPostgres()
  const isRequest = (chunk: Buffer) => chunk.length === 8 && chunk.readInt32BE(4) === 80_877_103
  return {
    ...session,
    answer: (chunk: Buffer) => (isRequest(chunk) ? [Buffer.from('N')] : session.answer(chunk)),
  }
}

interface Check {
  name: string
  ok: boolean
  message: string
}

for (const { name, dialect, server, makeUser, plain, secure } of [
  {
    ...{ name: 'PostgreSQL', dialect: 'postgresql', server: postgres },
    makeUser: [
      "CREATE USER certified PASSWORD 'secret'",
      'CREATE TABLE verified (v int)',
      'GRANT ALL ON verified TO certified',
    ],
    plain: withoutTls,
    secure: honestPostgres,
  },
  {
    ...{ name: 'MariaDB', dialect: 'mysql', server: mariadb },
    makeUser: [
      "CREATE USER certified@'127.0.0.1' IDENTIFIED BY 'secret' REQUIRE X509",
      'CREATE TABLE verified (v int)',
      "GRANT ALL ON target.* TO certified@'127.0.0.1'",
    ],
    plain: honestMysql,
    secure: () => ({ ...honestMysql(), greeting: greeting(true) }),
  },
]) {
  t.test(name, async (t) => {
    for (const statement of makeUser) await server.query(statement)
    await server.show(forLocalhost)
    const pipeId = await daemon.createPipe({ pipe_name: dialect, pipe_add_ingest_ts: false })
    const base = `/v1/pipes/${pipeId}/destinations`
    const { user: username, password, database, port } = server
    const plainConfig = { host: 'localhost', port, username, password, database, dialect, table: 'verified' }
    const certified = {
      username: 'certified',
      password: 'secret',
      tls_cert: ours.certificate,
      tls_key: ours.key,
    }
    const body = (config: object) => ({
      destination_type: 'destination_database',
      destination_config: { ...plainConfig, ...config },
    })
    const tried = async (config: object) => {
      const answer = await daemon.api<{ checks: Check[] }>('POST', `${base}/test`, body(config))
      t.equal(answer.status, 200, answer.text)
      t.notOk(answer.text.includes(keyLine), 'the key is in no message')
      return answer.body.checks
    }
    const firstFault = async (config: object) => (await tried(config)).find(({ ok }) => !ok)
    const certificateOf = async (config: object) =>
      (await tried(config)).find((check) => check.name === 'certificate')
    const { ca } = authority

    t.test(
      'the default is the rule of before: nothing is verified, on loopback there is no TLS',
      async (t) => {
        t.equal(await firstFault({}), undefined)
        t.equal(await certificateOf({}), undefined)
        t.equal(await certificateOf({ tls_verify: 'none' }), undefined)
      },
    )

    t.test('a CA of one’s own means full; the host must be in the certificate', async (t) => {
      t.equal(await firstFault({ tls_ca: ca }), undefined)
      t.match(await certificateOf({ tls_ca: ca }), {
        ok: true,
        message: 'The certificate is verified: a trusted authority issued it, and it is valid for localhost.',
      })
      t.match(await firstFault({ tls_ca: ca, host: '127.0.0.1' }), {
        name: 'certificate',
        message: /has a certificate for DNS:localhost, not for 127\.0\.0\.1, and nothing was sent/,
      })
      t.equal(await firstFault({ tls_ca: ca, host: '127.0.0.1', tls_verify: 'ca' }), undefined)
    })

    t.test('another CA, the public ones, and an expired certificate are refused', async (t) => {
      for (const tls_verify of ['ca', 'full']) {
        t.match(await firstFault({ tls_verify, tls_ca: stranger.ca }), {
          name: 'certificate',
          message: /not trusted \([A-Z_]+\), and nothing was sent to it: tls_ca does not contain its CA/,
        })
        t.match(await firstFault({ tls_verify }), { message: /only the public authorities are trusted/ })
      }
      await server.show(authority.issue({ names: 'DNS:localhost', days: -1 }))
      t.match(await firstFault({ tls_ca: ca }), {
        name: 'certificate',
        message: /has expired, and nothing was sent/,
      })
      t.equal(await firstFault({}), undefined, 'negative control: unverified, it is taken')
      await server.show(forLocalhost)
    })

    t.test('in the middle: no TLS, and TLS with a certificate of their own', async (t) => {
      const bare = await startRogue(plain, 0, honestly)
      const own = await startRogue(secure, 0, closes, { tls: true })
      t.teardown(() => Promise.all([bare.stop(), own.stop()]))
      const refused = await firstFault({ port: bare.port, tls_verify: 'ca', tls_ca: ca })
      t.match(refused?.message, /TLS/)
      t.notMatch(bare.heard(), username)
      t.match(await firstFault({ port: own.port, tls_verify: 'ca', tls_ca: ca }), {
        name: 'certificate',
        ok: false,
      })
      t.equal(own.heard(), '', 'nothing was said over TLS')
      await tried({ port: bare.port })
      t.match(bare.heard(), username, 'negative control: unverified, it hears the log-in')
    })

    t.test('a server that asks for a certificate', async (t) => {
      t.equal(await firstFault(certified), undefined)
      t.equal(await firstFault({ ...certified, tls_ca: ca }), undefined)
      t.type(
        await firstFault({ ...certified, tls_cert: null, tls_key: null }),
        'object',
        'without one it refuses',
      )
      const theirs = stranger.issue({ commonName: 'certified' })
      const fault = await firstFault({ ...certified, tls_cert: theirs.certificate, tls_key: theirs.key })
      t.type(fault, 'object', 'one of another CA too')
    })

    t.test(
      'delivery: verified, with our certificate; a renewed key needs no reset; the wrong server gets nothing',
      async (t) => {
        const id = await daemon.createDestination(pipeId, body({ ...certified, tls_ca: ca }))
        const shown = async () =>
          (await daemon.api<{ destination: Record<string, never> }>('GET', `${base}/${id}`)).text
        const rows = (count: number) =>
          until(`${count} rows`, async () => (await server.query('SELECT v FROM verified')).length === count)
        await daemon.ingest(pipeId, { v: 1 })
        await rows(1)
        t.match(await shown(), '"tls_key":"[redacted]"')
        t.match(await shown(), '"tls_pin":null')
        await server.show(authority.issue({ names: 'DNS:localhost' }))
        await daemon.stop()
        await daemon.start()
        await daemon.ingest(pipeId, { v: 2 })
        await rows(2)
        await server.show(stranger.issue({ names: 'DNS:localhost' }))
        await daemon.stop()
        await daemon.start()
        await daemon.ingest(pipeId, { v: 3 })
        await until('it is refused', async () => (await shown()).includes('"code":"certificate_untrusted"'))
        await server.show(forLocalhost)
        await daemon.api('POST', `${base}/${id}/retry-now`)
        await rows(3)

        const change = (config: object) =>
          daemon.api<{ errors?: Record<string, string> }>('PATCH', `${base}/${id}`, {
            destination_config: config,
          })
        const lowered = await change({ tls_verify: 'none', tls_ca: null })
        t.equal(lowered.status, 400)
        t.match(lowered.text, /destination_config\.password.*verified less/)
        t.equal((await change({ tls_ca: stranger.ca })).status, 400, 'nor by another CA')
        t.equal(
          (await change({ tls_verify: 'full', tls_key: '' })).status,
          200,
          'an empty secret keeps the stored one',
        )
        t.equal(
          (await change({ tls_verify: null, tls_ca: null, password: 'secret', tls_key: ours.key })).status,
          200,
        )
        await daemon.api('DELETE', `${base}/${id}`)
      },
    )

    t.test('what cannot be stored', async (t) => {
      const encrypted = openssl('pkey', '-in', ours.keyFile, '-aes256', '-passout', 'pass:x')
      const cases: [Record<string, unknown>, string, RegExp][] = [
        [{ tls_ca: ca, tls_verify: 'none' }, 'tls_ca', /requires tls_verify ca or full/],
        [{ tls_ca: 'no PEM' }, 'tls_ca', /must be one or more certificates in PEM/],
        [{ tls_verify: 'maybe' }, 'tls_verify', /./],
        [{ tls_cert: ours.certificate }, 'tls_key', /is required with tls_cert/],
        [{ tls_key: ours.key }, 'tls_cert', /is required with tls_key/],
        [{ tls_cert: ours.key, tls_key: ours.key }, 'tls_cert', /must be one or more certificates/],
        [{ tls_cert: ours.certificate, tls_key: encrypted }, 'tls_key', /must not be encrypted/],
        [
          { tls_cert: ours.certificate, tls_key: forLocalhost.key },
          'tls_key',
          /must be the key of the first certificate/,
        ],
        [{ tls_cert: ours.certificate, tls_key: 'x' }, 'tls_key', /must be a private key in PEM/],
        [{ tls_ca: 'x'.repeat(70_000) }, 'tls_ca', /./],
      ]
      for (const [config, key, message] of cases) {
        const answer = await daemon.api('POST', base, body(config))
        t.equal(answer.status, 400, answer.text)
        const errors = JSON.stringify(answer.body)
        t.match(errors, `destination_config.${key}`)
        t.match(errors, message)
        t.notOk(answer.text.includes(keyLine))
      }
    })
  })
}

t.test('the command line takes files, and no key in a flag', async (t) => {
  const env = { ...cliEnv(daemon, home), PIPECTL_DESTINATION_PASSWORD: 'secret' }
  const pipeId = await daemon.createPipe({ pipe_name: 'by-files' })
  const url = `postgres://certified@localhost:${postgres.port}/postgres?table=verified`
  const files = ['--tls-ca', authority.caFile, '--tls-cert', ours.certFile, '--tls-key', ours.keyFile]
  const made = await runCli(
    ['destinations', 'create', 'by-files', '--url', `${url}&tls_verify=full`, ...files],
    { env },
  )
  t.equal(made.code, 0, made.stderr)
  const listed = await daemon.api('GET', `/v1/pipes/${pipeId}`)
  t.match(listed.text, '"tls_verify":"full"')
  t.notOk(listed.text.includes(keyLine))
  const noPem = path.join(authority.directory, 'no.pem')
  writeFileSync(noPem, 'nothing')
  const refused = await runCli(['destinations', 'create', 'by-files', '--url', url, '--tls-ca', noPem], {
    env,
  })
  t.match(refused, { code: 2, stderr: /--tls-ca \S+: is not a PEM file/ })
  const missing = await runCli(['destinations', 'create', 'by-files', '--url', url, '--tls-ca', '/none'], {
    env,
  })
  t.match(missing, { code: 2, stderr: /--tls-ca \/none cannot be read \(ENOENT\)/ })
  const inFlag = await runCli(['destinations', 'create', 'by-files', '--url', url, '--set', 'tls_key=x'], {
    env,
  })
  t.match(inFlag, { code: 2, stderr: /tls_key is a secret/ })
  t.notOk(JSON.stringify(daemon.log).includes(keyLine), 'the key is in no log')
})
