/** HTTPS on the daemon's own listeners: what is served, how a certificate changes, and what a client cannot do to it. */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import https from 'node:https'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { readCertificate } from '../../src/api/tls/certificate-files.ts'
import { ConfigError } from '../../src/platform/config-error.ts'
import { type IssuedCertificate, openssl } from '../support/certificates.ts'
import { binary, cleanEnv, copyFreshDataDir, makeDataDir } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import { authority, call, closed, connectTls, first, pairOf, pipeOf, portOf, serve } from './over-tls.ts'

const serialOf = ({ certFile }: IssuedCertificate) =>
  openssl('x509', '-in', certFile, '-noout', '-serial').trim().replace('serial=', '')

t.test('one listener with a certificate serves everything over TLS 1.2 and 1.3', async (t) => {
  const served = await serve(t, {
    ...pairOf(first),
    PIPECTL_INGEST_WORKERS: 'auto',
    PIPECTL_HTTP_ENGINE: 'auto',
  })
  const { daemon, key } = served
  t.match(daemon.url, /^https:/)
  t.equal(daemon.dataUrl, daemon.url)
  t.match(
    daemon.log.find(({ msg }) => msg === 'daemon.ready'),
    { http_engine: 'node', ingest_workers: 1 },
  )
  t.equal((await call('GET', `${daemon.url}/v1/health`)).status, 200)
  t.equal((await call('GET', `${daemon.url}/v1/ready`)).status, 200)
  const pipeId = await pipeOf(served)
  const taken = await call('POST', `${daemon.url}/v1/ingest/${pipeId}`, { key, body: '[{"a":1},{"a":2}]' })
  t.match(taken, { status: 202, text: /"records_count":2/ })
  const document = await call('GET', `${daemon.url}/openapi/management-v1.openapi.yaml`, { key })
  t.match(document.text, `default: ${daemon.url}`)

  t.test('a client that knows no newer version than TLS 1.1 is turned away', async (t) => {
    const old = connectTls(daemon.url, {
      maxVersion: 'TLSv1.1',
      minVersion: 'TLSv1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    })
    await closed(old)
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const socket = connectTls(daemon.url, { maxVersion: version, minVersion: version })
      await new Promise((resolve) => socket.once('secureConnect', resolve))
      t.equal(socket.getProtocol(), version)
      socket.destroy()
    }
  })

  t.test('the cookie of the dashboard is Secure, and its pages are for TLS alone', async (t) => {
    const headers = { origin: daemon.url, 'sec-fetch-site': 'same-origin' }
    const page = await call('GET', `${daemon.url}/dashboard`, { headers })
    t.match(page.headers, { 'strict-transport-security': /max-age/ })
    const out = await call('DELETE', `${daemon.url}/dashboard/api/v1/session`, { headers })
    t.match(String(out.headers['strict-transport-security']), /max-age/)
  })
})

t.test('with two listeners each may have its own certificate, or one none', async (t) => {
  const data = authority.issue()
  const both = await serve(t, {
    ...pairOf(first),
    PIPECTL_DATA_LISTEN: '127.0.0.1:0',
    PIPECTL_TLS_DATA_CERT_FILE: data.certFile,
    PIPECTL_TLS_DATA_KEY_FILE: data.keyFile,
  })
  t.equal((await call('GET', `${both.daemon.url}/v1/health`)).serial, serialOf(first))
  t.equal((await call('GET', `${both.daemon.dataUrl}/v1/health`)).serial, serialOf(data))
  const dataOnly = await serve(t, {
    PIPECTL_DATA_LISTEN: '127.0.0.1:0',
    PIPECTL_TLS_DATA_CERT_FILE: data.certFile,
    PIPECTL_TLS_DATA_KEY_FILE: data.keyFile,
  })
  t.match(dataOnly.daemon.url, /^http:/)
  t.equal((await fetch(`${dataOnly.daemon.url}/v1/health`)).status, 200)
  t.equal((await call('GET', `${dataOnly.daemon.dataUrl}/v1/health`)).serial, serialOf(data))
  const same = await serve(t, { ...pairOf(first), PIPECTL_DATA_LISTEN: '127.0.0.1:0' })
  t.equal((await call('GET', `${same.daemon.dataUrl}/v1/health`)).serial, serialOf(first))
})

/** As certbot has it: `live` has links into `archive`. */
function liveDirectory(t: Test) {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-live-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const certFile = path.join(root, 'live', 'fullchain.pem')
  const keyFile = path.join(root, 'live', 'privkey.pem')
  mkdirSync(path.join(root, 'live'))
  mkdirSync(path.join(root, 'archive'))
  let version = 0
  const swap = (link: string, from: string) => {
    const target = path.join(root, 'archive', `${path.basename(link)}.${version}`)
    copyFileSync(from, target)
    symlinkSync(target, `${link}.new`)
    renameSync(`${link}.new`, link)
  }
  const install = (certificate: IssuedCertificate) => {
    version++
    swap(certFile, certificate.certFile)
    swap(keyFile, certificate.keyFile)
  }
  return { certFile, keyFile, install }
}

t.test(
  'a renewed certificate is served to new connections; open ones go on; nothing is refused or lost',
  async (t) => {
    const live = liveDirectory(t)
    live.install(first)
    const served = await serve(t, pairOf({ ...first, ...live }))
    const { daemon, key } = served
    const pipeId = await pipeOf(served)
    const url = `${daemon.dataUrl}/v1/ingest/${pipeId}`
    const kept = new https.Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => kept.destroy())
    const before = await call('POST', url, { key, body: '{"n":0}', agent: kept })
    t.equal(before.serial, serialOf(first))

    let isRunning = true
    let sent = 0
    const serials = new Set<string>()
    const client = async (agent?: https.Agent) => {
      while (isRunning) {
        const { status, serial } = await call('POST', url, { key, body: '{"n":1}', ...(agent && { agent }) })
        if (status !== 202) throw new Error(`ingest answered ${status}`)
        if (!agent) serials.add(serial)
        sent++
      }
    }
    const clients = [client(), client(), client(), client(kept)]
    const renewals = [authority.issue(), authority.issue(), authority.issue()]
    for (const [index, renewed] of renewals.entries()) {
      live.install(renewed)
      // The first by its files alone, the others at once.
      if (index > 0) daemon.signal('SIGHUP')
      await until(
        'the new one is served',
        async () => (await call('GET', `${daemon.url}/v1/health`)).serial === serialOf(renewed),
      )
      await until('a client has seen it', () => serials.has(serialOf(renewed)))
    }
    isRunning = false
    await Promise.all(clients)
    const after = await call('POST', url, { key, body: '{"n":2}', agent: kept })
    t.equal(after.serial, serialOf(first), 'the open connection goes on with what it began with')
    const metrics = await (await fetch(daemon.metricsUrl)).text()
    t.equal(Number(/^pipectl_ingest_records_total\{.*\} (\d+)$/m.exec(metrics)?.[1]), sent + 2)
    t.equal(daemon.log.filter(({ msg }) => msg === 'tls.certificate_loaded').length, 3)
    t.same(
      daemon.log.filter(({ level }) => level === 'error'),
      [],
    )
  },
)

t.test('a new certificate that cannot be used leaves the old one, and says so', async (t) => {
  const live = liveDirectory(t)
  live.install(first)
  const { daemon } = await serve(t, pairOf({ ...first, ...live }))
  const rejected = () => daemon.log.filter(({ msg }) => msg === 'tls.certificate_rejected')
  const warnings = async () => JSON.parse((await call('GET', `${daemon.url}/v1/ready`)).text).warnings ?? []
  const metric = async (name: string) =>
    Number(
      new RegExp(`^${name}\\{listener="listen"\\} (\\S+)$`, 'm').exec(
        await (await fetch(daemon.metricsUrl)).text(),
      )?.[1],
    )
  t.equal(await metric('pipectl_tls_certificate_rejected'), 0)
  const expires = openssl('x509', '-in', first.certFile, '-noout', '-enddate').replace('notAfter=', '')
  t.equal(await metric('pipectl_tls_certificate_expiry_seconds'), Date.parse(expires) / 1000)

  live.install({ ...first, keyFile: authority.issue().keyFile })
  await until('the log says so', () => rejected().length > 0)
  t.match(
    rejected()[0]?.reason,
    /^tls\.key_file: .*privkey\.pem is not the key of the certificate in .*fullchain\.pem$/,
  )
  t.equal((await call('GET', `${daemon.url}/v1/health`)).serial, serialOf(first))
  t.same(await warnings(), ['tls_certificate_rejected'])
  t.equal(await metric('pipectl_tls_certificate_rejected'), 1)
  daemon.signal('SIGHUP')
  await until('it is tried again at once', () => rejected().length > 1)
  live.install(authority.issue({ days: -1 }))
  daemon.signal('SIGHUP')
  await until('an expired one is rejected', () => /expired on/.test(String(rejected().at(-1)?.reason)))
  const renewed = authority.issue()
  live.install(renewed)
  daemon.signal('SIGHUP')
  await until(
    'a good one is served',
    async () => (await call('GET', `${daemon.url}/v1/health`)).serial === serialOf(renewed),
  )
  t.same(await warnings(), [])
  t.equal(await metric('pipectl_tls_certificate_rejected'), 0)
})

t.test('wrong settings: exit 78 and one line that names the setting', async (t) => {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-wrong-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = (name: string, content: string, mode = 0o600) => {
    const full = path.join(directory, name)
    writeFileSync(full, content)
    chmodSync(full, mode)
    return full
  }
  const other = authority.issue()
  const encrypted = path.join(directory, 'encrypted.key')
  openssl('pkey', '-in', first.keyFile, '-aes256', '-passout', 'pass:secret', '-out', encrypted)
  chmodSync(encrypted, 0o600)
  const unreadable =
    process.getuid?.() === 0 ? [] : [[first.certFile, file('none.key', first.key, 0), /cannot be read/]]
  const cases: [cert: string, key: string, line: RegExp][] = [
    [`${directory}/none`, first.keyFile, /tls\.cert_file: \S+ does not exist/],
    [first.certFile, directory, /tls\.key_file: \S+ is not a file/],
    [first.certFile, other.keyFile, /tls\.key_file: \S+ is not the key of the certificate in \S+/],
    [first.certFile, encrypted, /tls\.key_file: \S+ is encrypted, and the daemon has no passphrase/],
    [first.certFile, file('text.key', 'no key'), /tls\.key_file: \S+ contains no private key in PEM/],
    [first.keyFile, first.keyFile, /tls\.cert_file: \S+ contains no certificate in PEM/],
    [
      first.certFile,
      file('open.key', first.key, 0o644),
      /tls\.key_file: \S+ can be read by other users \(mode 0644\); run `chmod o-rwx/,
    ],
    [
      file('order.pem', authority.ca + first.certificate),
      first.keyFile,
      /tls\.cert_file: \S+ is in the wrong order/,
    ],
    [
      file('damaged.pem', first.certificate.replace(/\n\w{10}/, '\nAAAAAAAAAA')),
      first.keyFile,
      /tls\.cert_file: \S+: its certificate 1 of 1 is damaged/,
    ],
    [file('large.pem', 'x'.repeat(1_100_000)), first.keyFile, /tls\.cert_file: \S+ is larger than 1 MiB/],
    ...(unreadable as [string, string, RegExp][]),
  ]
  const dataDir = makeDataDir()
  await copyFreshDataDir(dataDir)
  t.teardown(() => rmSync(path.dirname(dataDir), { recursive: true, force: true }))
  const start = (env: Record<string, string>) =>
    spawnSync(process.execPath, [binary, 'serve', '--data-dir', dataDir, '--listen', '127.0.0.1:0'], {
      env: cleanEnv({ PIPECTL_METRICS_LISTEN: 'off', ...env }),
      encoding: 'utf8',
    })
  const settings = { certSetting: 'tls.cert_file', keySetting: 'tls.key_file' }
  for (const [certFile, keyFile, line] of cases) {
    let fault = ''
    try {
      readCertificate({ certFile, keyFile, ...settings })
    } catch (error) {
      if (error instanceof ConfigError) fault = error.message
    }
    t.match(fault, line)
    t.notMatch(fault, first.key.split('\n')[1]!)
  }
  const asStarted: [cert: string, key: string, line: RegExp][] = [
    [first.certFile, '', /^error: tls\.key_file: is not set, but tls\.cert_file is: TLS needs both$/],
    ['', first.keyFile, /^error: tls\.cert_file: is not set, but tls\.key_file is/],
    [first.certFile, encrypted, /^error: tls\.key_file: \S+ is encrypted, and the daemon has no passphrase/],
  ]
  for (const [cert, key, line] of asStarted) {
    const { status, stderr } = start({ PIPECTL_TLS_CERT_FILE: cert, PIPECTL_TLS_KEY_FILE: key })
    t.equal(status, 78, stderr)
    const lines = stderr.split('\n').filter((one) => one.includes('tls.'))
    t.equal(lines.length, 1, stderr)
    t.match(lines[0], line)
    t.notMatch(stderr, first.key.split('\n')[1]!)
  }
  t.match(start({ PIPECTL_TLS_DATA_CERT_FILE: first.certFile, PIPECTL_TLS_DATA_KEY_FILE: first.keyFile }), {
    status: 78,
    stderr: /tls\.data_cert_file: needs data_listen/,
  })
  t.match(start({ ...pairOf(first), PIPECTL_INGEST_WORKERS: '3' }), {
    status: 78,
    stderr: /ingest\.workers: must be 1 or auto/,
  })
})

t.test(
  'an expired certificate does not keep the daemon from delivering: it starts, and says so',
  async (t) => {
    const expired = authority.issue({ days: -1 })
    const { daemon } = await serve(t, pairOf(expired))
    t.match(
      daemon.log.find(({ msg }) => msg === 'tls.certificate_expired'),
      { level: 'error', reason: /^tls\.cert_file: \S+ expired on \S+; clients will reject it: renew it$/ },
    )
    await t.rejects(call('GET', `${daemon.url}/v1/health`), { code: 'CERT_HAS_EXPIRED' })
    const { stdout } = spawnSync(process.execPath, [binary, 'doctor', '--data-dir', daemon.dataDir], {
      env: cleanEnv(pairOf(expired)),
      encoding: 'utf8',
    })
    t.match(stdout, /certificate of listen.*expired on/)
  },
)

t.test('the limit of connections per address counts handshakes too', async (t) => {
  const { daemon } = await serve(t, {
    ...pairOf(first),
    PIPECTL_HTTP_ENGINE: 'node',
    PIPECTL_HTTP_MAX_CONNECTIONS_PER_ADDRESS: '5',
  })
  const silent = Array.from({ length: 5 }, () =>
    net.connect(portOf(daemon.url), '127.0.0.1').on('error', () => {}),
  )
  await Promise.all(silent.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
  await t.rejects(call('GET', `${daemon.url}/v1/health`))
  for (const socket of silent) socket.destroy()
  await until(
    'there is room again',
    async () => (await call('GET', `${daemon.url}/v1/health`)).status === 200,
  )
})

t.test('the command line trusts a CA of its own by NODE_EXTRA_CA_CERTS', async (t) => {
  const { daemon, key } = await serve(t, pairOf(first))
  const list = (env: Record<string, string>) =>
    spawnSync(process.execPath, [binary, 'pipes', 'list', '--server', daemon.url], {
      env: cleanEnv({ PIPECTL_URL: daemon.url, PIPECTL_API_KEY: key, ...env }),
      encoding: 'utf8',
    })
  t.match(list({ NODE_EXTRA_CA_CERTS: authority.caFile }), { status: 0 })
  t.match(list({}), {
    status: 7,
    stderr: /of an authority that is not trusted here; name that in NODE_EXTRA_CA_CERTS/,
  })
})
