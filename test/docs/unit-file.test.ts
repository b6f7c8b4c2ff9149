import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

const systemd = new URL('../../systemd/', import.meta.url)
const unit = new URL('pipectl.service', systemd).pathname
const backup = new URL('pipectl-backup.service', systemd).pathname
const timer = new URL('pipectl-backup.timer', systemd).pathname

/** systemd-analyze of the machine; the test command installs it. */
function analyze(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync('systemd-analyze', args, { encoding: 'utf8' })
  if (error !== undefined) throw new Error(`systemd-analyze is needed: ${error.message}`)
  return { status, output: stdout + stderr }
}

function exposure(file: string): number {
  const { output } = analyze('security', '--offline=true', '--no-pager', file)
  const found = /Overall exposure level for \S+: ([\d.]+)/.exec(output)
  if (found === null) throw new Error(`no exposure level in: ${output}`)
  return Number(found[1])
}

t.test('systemd accepts the units without a word', async (t) => {
  t.same(readdirSync(systemd).sort(), [backup, timer, unit].map((file) => path.basename(file)).sort())
  const { status, output } = analyze('verify', '--man=no', unit, backup, timer)
  t.equal(output, '')
  t.equal(status, 0)
})

t.test('the exposure is at most 1.3; without the hardening it is not (negative control)', async (t) => {
  t.ok(exposure(unit) <= 1.3, `exposure ${exposure(unit)}`)
  t.ok(exposure(backup) <= 1.3, `exposure ${exposure(backup)}`)
  const bare = path.join(t.testdir(), 'bare.service')
  const text = readFileSync(unit, 'utf8')
  writeFileSync(
    bare,
    text.replace(/^(Protect|Private|Restrict|SystemCall|CapabilityBounding|NoNew|Dynamic).*\n/gm, ''),
  )
  t.ok(exposure(bare) > 5, `exposure ${exposure(bare)}`)
})

t.test('the backup has the hardening of the daemon, and no network', async (t) => {
  const hardening = (file: string) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) =>
        /^(Protect|Private|Proc|Restrict(?!Address)|Remove|Lock|SystemCall|Cap|Amb|NoNew|UMask)/.test(line),
      )
  const missing = hardening(unit).filter((line) => !hardening(backup).includes(line))
  t.same(missing, [])
  t.ok(hardening(unit).length > 20)
  for (const line of ['PrivateNetwork=yes', 'IPAddressDeny=any', 'RestrictAddressFamilies=AF_UNIX'])
    t.ok(readFileSync(backup, 'utf8').includes(`\n${line}\n`), line)
})

t.test('the backup is of the daemon’s data, by its user and with its settings', async (t) => {
  const text = readFileSync(backup, 'utf8')
  const daemon = readFileSync(unit, 'utf8')
  for (const line of [
    'DynamicUser=yes',
    'Environment=PIPECTL_DATA_DIR=%S/pipectl',
    'EnvironmentFile=-/etc/pipectl/environment',
  ]) {
    t.ok(text.includes(`\n${line}\n`), line)
    t.ok(daemon.includes(`\n${line}\n`), `${line} of the daemon`)
  }
  // systemd names a dynamic user after its unit.
  t.match(text, /^User=pipectl$/m)
  t.match(text, /^StateDirectory=pipectl pipectl-backups$/m)
})

t.test('the documentation that the unit names is installed by the commands of the guide', async (t) => {
  const named = /^Documentation=file:\/\/(\S+)$/m.exec(readFileSync(unit, 'utf8'))?.[1] ?? 'none'
  const guide = readFileSync(new URL('../../docs/install.md', import.meta.url), 'utf8')
  t.match(guide, new RegExp(`^install .*README\\.md" ${named.replaceAll('.', '\\.')}$`, 'm'))
})

t.test('the unit says what the daemon needs to be told and to be given', async (t) => {
  const text = readFileSync(unit, 'utf8')
  for (const line of [
    'Type=notify',
    'NotifyAccess=all',
    'WatchdogSec=30',
    'Restart=on-failure',
    'RestartPreventExitStatus=78',
    'DynamicUser=yes',
    'StateDirectory=pipectl',
    'LimitCORE=0',
    'MemoryHigh=70%',
    'MemoryMax=80%',
    'TasksMax=256',
    'PrivateMounts=yes',
    'IPAddressDeny=169.254.0.0/16 fd00:ec2::254',
    'LoadCredential=pipectl-sealing-key:/etc/pipectl/sealing.key',
  ]) {
    t.match(text, new RegExp(`^${line.replace(/[/.]/g, '\\$&')}$`, 'm'))
  }
})
