/**
 * The Debian package, from its build to its purge, in a fresh Debian that has nothing else: no Node.js, no systemd.
 * It is installed and started by the commands of docs/install.md, and gets certificates by those of docs/tls.md. The
 * destinations, an HTTP endpoint and PostgreSQL, are outside of it on loopback. So is a repository for apt, which upgrades it and
 * installs it again by the commands of docs/releases.md.
 *
 * It is Debian 13, on whose C library uWebSockets loads. With `--scale 2` it is Debian 12, where node:http serves.
 */
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import tls from 'node:tls'
import t from 'tap'
import { serveRepository } from '../support/apt-repository.ts'
import { TestAuthority } from '../support/certificates.ts'
import { asRevision, buildDeb } from '../support/deb.ts'
import { type DebianRelease, freshDebian, namesIn } from '../support/debian-root.ts'
import { freePort } from '../support/free-port.ts'
import { rootBlocks } from '../support/guide-sections.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startPostgres } from '../support/postgres.ts'
import { makeReleaseKey } from '../support/release-key.ts'
import { scale } from '../support/scale.ts'
import { until } from '../support/until.ts'

const project = new URL('../../', import.meta.url).pathname
const manifest = JSON.parse(readFileSync(path.join(project, 'package.json'), 'utf8'))
const { runtime } = await import(path.join(project, 'vendor/debian/node-runtime.mjs'))
const directory = t.testdir()
const release: DebianRelease = scale >= 2 ? 'bookworm' : 'trixie'
const debProcessor = process.arch === 'x64' ? 'amd64' : 'arm64'
const engine = release === 'bookworm' ? 'node' : 'uws'
const root = freshDebian(t, release)
const inRoot = (name: string) => path.join(root.directory, name)
const settings = '/etc/pipectl/pipectl.toml'
const before = root.list()
const guide = rootBlocks('install', 'Debian')
const [makePackage = '', installPackage = '', startDaemon = '', showKey = '', doctor = ''] = guide
const certbotGuide = rootBlocks('tls', 'With systemd and certbot')
const repository = await serveRepository(t, root)
const releaseKey = makeReleaseKey(t)

/** A block of a guide, by root. */
async function take(block: string, env: Record<string, string> = {}): Promise<string> {
  const { code, stdout, stderr } = await root.run(['sh', '-ec', block], { env })
  if (code !== 0) throw new Error(`${block} ended with ${code}: ${stdout}${stderr}`)
  return stdout + stderr
}

async function apt(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await root.run(['apt-get', '-y', '-q', ...args])
  if (code !== 0) throw new Error(`apt-get ${args.join(' ')} ended with ${code}: ${stderr}`)
  return stdout + stderr
}

/** As `apt-get install ./FILE` there. */
async function install(file: string, ...options: string[]): Promise<string> {
  copyFileSync(file, inRoot('tmp/pipectl.deb'))
  return await apt('install', ...options, '/tmp/pipectl.deb')
}

async function pipectl(args: string[], env: Record<string, string> = {}): Promise<string> {
  const { code, stdout, stderr } = await root.run(['pipectl', ...args], {
    user: 'pipectl:pipectl',
    env: { HOME: '/tmp', ...env },
  })
  if (code !== 0) throw new Error(`pipectl ${args.join(' ')} ended with ${code}: ${stderr}`)
  return stdout
}

/** As the guide starts it where there is no systemd, but for the ports, which may be taken on this machine, and its disk, which may be small. */
async function serve(command = startDaemon, more: Record<string, string> = {}) {
  const port = await freePort()
  const env = { PIPECTL_LISTEN: `127.0.0.1:${port}`, PIPECTL_METRICS_LISTEN: 'off', ...more }
  const child = root.start(['sh', '-ec', `exec ${command}`], {
    env: { ...env, PIPECTL_BUFFER_MIN_FREE_BYTES: '0' },
  })
  let log = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })
  const exit = new Promise<number | string>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal ?? 'gone')),
  )
  t.teardown(() => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${port}`
  let ended: number | string | null = null
  void exit.then((code) => {
    ended = code
  })
  const isReady = async () =>
    'PIPECTL_TLS_CERT_FILE' in more ? log.includes('daemon.ready') : (await fetch(`${url}/v1/ready`)).ok
  await until('the daemon of the package is ready or has ended', () => ended !== null || isReady())
  if (ended !== null) throw new Error(`the daemon ended with ${ended}: ${log}`)
  const key = readFileSync(inRoot('var/lib/pipectl/first-key'), 'utf8').trim()
  return {
    url,
    port,
    pid: child.pid ?? 0,
    log: () => log,
    env: { PIPECTL_URL: url, PIPECTL_API_KEY: key },
    stop: async () => {
      child.kill('SIGTERM')
      return await exit
    },
  }
}

const sink = await startHttpSink()
t.teardown(() => sink.stop())
const first = buildDeb(directory)
const second = asRevision('2', first)

t.test('the guide says how the package is made, and has no command that is not run here', async (t) => {
  t.equal(makePackage, 'npm run package:deb\n')
  t.equal(manifest.scripts['package:deb'], 'npm run --silent build && node vendor/debian/make-deb.mjs')
  t.equal(guide.length, 5)
  t.equal(certbotGuide.length, 4)
})

t.test('apt-get install needs nothing else and puts everything in its place', async (t) => {
  const file = path.basename(first)
  copyFileSync(first, inRoot(`tmp/${file}`))
  // The guide shows the most common machine; apt asks nobody here.
  const command = installPackage.replace('_amd64.deb', `_${debProcessor}.deb`)
  t.match(command, ` ./${file}\n`)
  const output = await take(`cd /tmp\n${command.replace('apt-get ', 'apt-get -y -q ')}`)
  t.match(output, /0 upgraded, 1 newly installed/)
  t.equal(await pipectl(['--version']), `${manifest.version}\n`)
  t.equal((await root.run(['sh', '-c', 'command -v node'])).code, 127, 'there is no other Node.js')
  t.equal((await root.run(['/usr/lib/pipectl/node', '--version'])).stdout, `v${runtime.version}\n`)
  for (const name of [
    'usr/lib/systemd/system/pipectl.service',
    'usr/lib/systemd/system/pipectl-backup.service',
    'usr/lib/systemd/system/pipectl-backup.timer',
    'usr/share/bash-completion/completions/pipectl',
    'usr/share/zsh/vendor-completions/_pipectl',
    'usr/share/fish/vendor_completions.d/pipectl.fish',
    'usr/share/doc/pipectl/copyright',
    'usr/share/doc/pipectl/changelog.gz',
    'usr/share/doc/pipectl/README.md',
    'usr/share/doc/pipectl/LICENSE.node.gz',
    'etc/systemd/system/multi-user.target.wants/pipectl.service',
  ]) {
    t.ok((await root.run(['test', '-e', `/${name}`])).code === 0, name)
  }
  t.notOk(
    namesIn(root, 'etc/systemd/system/timers.target.wants').includes('pipectl-backup.timer'),
    'the nightly backup is not enabled',
  )
})

t.test('the sealing key is the daemon’s alone, and the settings are read by it alone', async (t) => {
  const { uid } = statSync(inRoot('var/lib/pipectl'))
  const key = statSync(inRoot('etc/pipectl/sealing.key'))
  t.equal(key.mode & 0o777, 0o600)
  t.equal(key.uid, uid)
  t.equal(Buffer.from(readFileSync(inRoot('etc/pipectl/sealing.key'), 'utf8'), 'base64').length, 32)
  t.equal(statSync(inRoot('var/lib/pipectl')).mode & 0o777, 0o700)
  t.equal(statSync(inRoot(settings)).mode & 0o777, 0o640)
  t.equal(statSync(inRoot(settings)).uid, 0)
  t.not(uid, 0)
  // Both ports may be taken on this machine, and its disk may be small.
  const ports = { PIPECTL_LISTEN: '127.0.0.1:0', PIPECTL_METRICS_LISTEN: 'off' }
  const env = { ...ports, PIPECTL_BUFFER_MIN_FREE_BYTES: '0' }
  const doctor = JSON.parse(await pipectl(['doctor', '--config', settings, '-o', 'json'], env)).checks
  const found = (name: string) => doctor.find((one: { name: string }) => one.name === name)
  t.match(found('sealing key'), { result: 'ok', detail: 'exists and is readable only by its owner' })
  t.match(found('Node.js'), { result: 'ok', detail: `v${runtime.version}` }, 'one with security fixes')
  t.notOk(existsSync(inRoot('var/lib/pipectl/sealing.key')))
})

t.test('the guide’s first start: key, link and doctor', async (t) => {
  const daemon = await serve()
  t.match(await take(showKey), /^ppl1_\S+\nhttp:\/\/\S+\n$/)
  const env = { PIPECTL_LISTEN: `127.0.0.1:${daemon.port}`, PIPECTL_METRICS_LISTEN: 'off' }
  t.match(await take(doctor, { ...env, PIPECTL_BUFFER_MIN_FREE_BYTES: '0' }), /sealing key/)
  t.equal(await daemon.stop(), 0)
})

/** The serial number of the certificate that is served. */
async function serialAt(port: number, ca: string): Promise<string> {
  const socket = tls.connect({ host: '127.0.0.1', port, ca, servername: 'localhost' })
  await once(socket, 'secureConnect')
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  return serialNumber
}

t.test('certbot’s renewals reach the daemon by the script of the guide', async (t) => {
  const [group = '', dropIn = '', script = '', firstRun = ''] = certbotGuide
  const authority = new TestAuthority()
  t.teardown(() => authority.close())
  /** As certbot leaves it: links in live/ to the newest of archive/. */
  const renew = (number: number) => {
    const { certFile, keyFile } = authority.issue()
    for (const [name, file] of Object.entries({ fullchain: certFile, privkey: keyFile })) {
      for (const folder of ['archive', 'live'])
        mkdirSync(inRoot(`etc/letsencrypt/${folder}/pipectl.example.com`), { recursive: true, mode: 0o700 })
      copyFileSync(file, inRoot(`etc/letsencrypt/archive/pipectl.example.com/${name}${number}.pem`))
      const link = inRoot(`etc/letsencrypt/live/pipectl.example.com/${name}.pem`)
      rmSync(link, { force: true })
      symlinkSync(`../../archive/pipectl.example.com/${name}${number}.pem`, link)
    }
    return new X509Certificate(readFileSync(certFile)).serialNumber
  }
  const hook = 'etc/letsencrypt/renewal-hooks/deploy/pipectl'
  mkdirSync(path.dirname(inRoot(hook)), { recursive: true })
  writeFileSync(inRoot(hook), script, { mode: 0o755 })
  // There is no systemd: what it is told is written down, and the test does it.
  const asked = inRoot('tmp/systemctl-asked')
  writeFileSync(inRoot('usr/bin/systemctl'), '#!/bin/sh\necho "$*" >>/tmp/systemctl-asked\n', { mode: 0o755 })
  t.teardown(() => {
    for (const name of ['usr/bin/systemctl', 'etc/letsencrypt', 'etc/pipectl/tls'])
      rmSync(inRoot(name), { recursive: true, force: true })
  })

  const firstSerial = renew(1)
  await take(group)
  await take(firstRun)
  const pems = ['fullchain.pem', 'privkey.pem']
  t.same(namesIn(root, 'etc/pipectl/tls'), pems)
  for (const name of pems) t.equal(statSync(inRoot(`etc/pipectl/tls/${name}`)).mode & 0o777, 0o640)
  const reload = 'try-reload-or-restart --no-block pipectl'
  t.equal(readFileSync(asked, 'utf8'), `edit pipectl\n${reload}\nrestart pipectl\n`)
  const [, ofGroup = ''] = /^SupplementaryGroups=(\S+)$/m.exec(dropIn) ?? []
  const daemon = await serve(startDaemon.replace('--init-groups', `--groups ${ofGroup}`), {
    PIPECTL_TLS_CERT_FILE: '/etc/pipectl/tls/fullchain.pem',
    PIPECTL_TLS_KEY_FILE: '/etc/pipectl/tls/privkey.pem',
  })
  t.equal(await serialAt(daemon.port, authority.ca), firstSerial)

  const secondSerial = renew(2)
  await take(`/${hook}`, { RENEWED_LINEAGE: '/etc/letsencrypt/live/pipectl.example.com' })
  t.match(readFileSync(asked, 'utf8'), new RegExp(`\n${reload}\n$`))
  process.kill(daemon.pid, 'SIGHUP')
  await until(
    'the renewed certificate is served',
    async () => (await serialAt(daemon.port, authority.ca)) === secondSerial,
  )
  t.equal(await daemon.stop(), 0)
  await take(`groupdel ${ofGroup}`)
})

t.test('systemd accepts the units of the package, as closed as the ones for every system', async (t) => {
  const units = inRoot('usr/lib/systemd/system')
  const unit = path.join(units, 'pipectl.service')
  const directory = t.testdir()
  // The program that the units start is at another path on this machine.
  const copyOf = (name: string) => {
    const copy = path.join(directory, name)
    const text = readFileSync(path.join(units, name), 'utf8')
    writeFileSync(copy, text.replace(/^ExecStart=/m, `ExecStart=${root.directory}`))
    return copy
  }
  const text = readFileSync(unit, 'utf8')
  const copy = copyOf('pipectl.service')
  const ofBackup = ['pipectl-backup.service', 'pipectl-backup.timer'].map(copyOf)
  // With what the guide adds for certificates.
  mkdirSync(`${copy}.d`)
  writeFileSync(path.join(`${copy}.d`, 'override.conf'), certbotGuide[1] ?? '')
  const verified = spawnSync('systemd-analyze', ['verify', '--man=no', copy, ...ofBackup], {
    encoding: 'utf8',
  })
  t.equal(verified.stdout + verified.stderr, '')
  t.equal(verified.status, 0)
  for (const name of ['pipectl.service', 'pipectl-backup.service']) {
    const { stdout } = spawnSync(
      'systemd-analyze',
      ['security', '--offline=true', '--no-pager', path.join(units, name)],
      { encoding: 'utf8' },
    )
    t.ok(Number(/Overall exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]) <= 1.3, stdout.slice(-200))
  }
  for (const line of ['User=pipectl', 'StateDirectory=pipectl', 'ExecStart=/usr/bin/pipectl serve --init'])
    t.ok(text.includes(`\n${line}\n`), line)
  t.notMatch(text, /DynamicUser|LoadCredential|PIPECTL_DATA_DIR/)
  const backup = readFileSync(path.join(units, 'pipectl-backup.service'), 'utf8')
  for (const line of ['User=pipectl', 'Environment=PIPECTL_CONFIG=/etc/pipectl/pipectl.toml'])
    t.ok(backup.includes(`\n${line}\n`), line)
  t.notMatch(backup, /DynamicUser|PIPECTL_DATA_DIR/)
})

t.test(
  'the command of the nightly backup, by its user, as often as the unit keeps and once more',
  async (t) => {
    const backup = readFileSync(inRoot('usr/lib/systemd/system/pipectl-backup.service'), 'utf8')
    const [, command = ''] = /^ExecStart=(.*)$/m.exec(backup) ?? []
    const [, keep = ''] = /^Environment=KEEP=(\d+)$/m.exec(backup) ?? []
    // systemd makes the directory of StateDirectory=.
    await take('install -d -m 0700 -o pipectl -g pipectl /var/lib/pipectl-backups')
    const words = command
      .replace(/\$\{KEEP\}/, keep)
      .replace('%S', '/var/lib')
      .split(' ')
    t.same(words.slice(1), ['backup', '--keep', keep, '/var/lib/pipectl-backups'])
    for (let night = 0; night <= Number(keep); night++)
      await pipectl(words.slice(1), { PIPECTL_CONFIG: settings })
    t.equal(namesIn(root, 'var/lib/pipectl-backups').length, Number(keep))
  },
)

t.test('it serves and delivers; an upgrade loses nothing; a purge leaves nothing but data', async (t) => {
  const postgres = await startPostgres()
  t.teardown(() => postgres.stop())
  await postgres.query('CREATE TABLE events (id bigint PRIMARY KEY, name text)')
  const daemon = await serve()
  t.equal(readFileSync(`/proc/${daemon.pid}/cmdline`, 'utf8').split('\0')[0], '/usr/lib/pipectl/node')
  t.match(daemon.log(), `"http_engine":"${engine}"`)
  t.equal(daemon.log().includes('http.engine_fallback'), engine === 'node')
  const ingest = async (of: { url: string; env: Record<string, string> }, ids: number[]) => {
    const { pipes } = JSON.parse(await pipectl(['pipes', 'list', '-o', 'json'], of.env))
    const response = await fetch(`${of.url}/v1/ingest/${pipes[0].pipe_id}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${of.env.PIPECTL_API_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(ids.map((id) => ({ id, name: `record ${id}` }))),
    })
    t.equal(response.status, 202)
  }
  await pipectl(['pipes', 'create', 'events'], daemon.env)
  await pipectl(['destinations', 'create', 'events', '--type', 'pull'], daemon.env)
  await pipectl(['destinations', 'create', 'events', '--url', `${sink.url}/records`], daemon.env)
  const database = `postgres://postgres@127.0.0.1:${postgres.port}/postgres?table=events`
  await pipectl(
    [
      'destinations',
      'create',
      'events',
      '--url',
      database,
      '--column',
      'id:number:dedupe_id',
      '--column',
      'name:string',
    ],
    { ...daemon.env, PIPECTL_DESTINATION_PASSWORD: postgres.password },
  )
  await ingest(daemon, [1, 2, 3])
  const stored = async () =>
    (await postgres.query('SELECT id FROM events ORDER BY id')).map((row) => Number(row.id))
  const sent = () => [...new Set(sink.records().map((record) => record.id))].sort()
  const isEverywhere = async (count: number) => (await stored()).length === count && sent().length === count
  await until('three records are in the table and at the endpoint', () => isEverywhere(3))

  // While nothing can be delivered two more are accepted, and the package is replaced.
  await sink.halt()
  await ingest(daemon, [4, 5])
  await until('the table has them', async () => (await stored()).length === 5)
  t.equal(await daemon.stop(), 0)
  const key = readFileSync(inRoot('etc/pipectl/sealing.key'), 'utf8')
  writeFileSync(inRoot(settings), '# ours\n', { flag: 'a' })
  repository.publish([first, second], releaseKey)
  repository.giveKey(releaseKey)
  t.match(await take(repository.useAndInstall, repository.env), /1 upgraded, 0 newly installed/)
  t.match(readFileSync(inRoot(settings), 'utf8'), /# ours\n$/, 'changed settings stay')
  t.equal(statSync(inRoot(settings)).mode & 0o777, 0o640)
  t.equal(readFileSync(inRoot('etc/pipectl/sealing.key'), 'utf8'), key)
  await sink.listen()
  const upgraded = await serve()
  await until('all five are everywhere', () => isEverywhere(5))
  // A message at a time.
  const pull = async () => (await pipectl(['pull', 'events', '--once'], upgraded.env)).trim().split('\n')
  const pulled = [...(await pull()), ...(await pull())]
  t.same(
    pulled.map((line) => JSON.parse(line).id),
    [1, 2, 3, 4, 5],
  )
  t.equal(await upgraded.stop(), 0)

  const back = await install(first, '--allow-downgrades')
  t.match(back, /going back from \S+-2 to \S+-1/)
  await apt('remove', 'pipectl')
  t.notOk(existsSync(inRoot('usr/lib/pipectl')))
  t.ok(existsSync(inRoot('var/lib/pipectl/metadata.db')))

  t.match(await apt('purge', 'pipectl'), /\/var\/lib\/pipectl is kept/)
  t.ok(existsSync(inRoot('var/lib/pipectl/metadata.db')))
  t.same(namesIn(root, 'etc/pipectl'), ['sealing.key'])
  t.match(await take(repository.install, repository.env), /0 upgraded, 1 newly installed/)
  t.equal(readFileSync(inRoot('etc/pipectl/sealing.key'), 'utf8'), key, 'what opens the kept data is kept')
  const again = await serve()
  t.match(await pipectl(['pipes', 'list', '-o', 'json'], again.env), /"pipe_name": ?"events"/)
  t.equal(await again.stop(), 0)
})

t.test('apt takes nothing from a repository that was changed, or signed with another key', async (t) => {
  t.equal((await repository.update()).code, 0)
  for (const name of ['Packages', 'Packages.gz']) {
    const file = path.join(repository.folder, `dists/stable/main/binary-${debProcessor}`, name)
    writeFileSync(file, readFileSync(file).reverse())
  }
  const changed = await repository.update()
  t.not(changed.code, 0)
  t.match(changed.stderr, /Hash Sum mismatch/)
  repository.publish([second], makeReleaseKey(t))
  const foreign = await repository.update()
  t.not(foreign.code, 0)
  t.match(foreign.stderr, /NO_PUBKEY|Missing key|not signed/)
  repository.forget()
})

t.test('once the data is deleted a purge keeps backups, and leaves nothing else behind', async (t) => {
  for (const name of readdirSync(inRoot('var/lib/pipectl')))
    rmSync(inRoot(path.join('var/lib/pipectl', name)), { recursive: true })
  t.match(await apt('purge', 'pipectl'), /backups\s+in \/var\/lib\/pipectl-backups/)
  t.ok(existsSync(inRoot('etc/pipectl/sealing.key')), 'what opens the secrets in the backups is kept')
  for (const name of namesIn(root, 'var/lib/pipectl-backups'))
    rmSync(inRoot(path.join('var/lib/pipectl-backups', name)))
  await install(second)
  await apt('purge', 'pipectl')
  t.same(root.list(), before)
  t.notMatch(readFileSync(inRoot('etc/passwd'), 'utf8'), /pipectl/)
})
