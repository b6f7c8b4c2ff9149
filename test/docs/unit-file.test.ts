import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

const unit = new URL('../../systemd/pipectl.service', import.meta.url).pathname

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

t.test('systemd accepts the unit without a word', async (t) => {
  const { status, output } = analyze('verify', '--man=no', unit)
  t.equal(output, '')
  t.equal(status, 0)
})

t.test('its exposure is at most 1.3; without the hardening it is not (negative control)', async (t) => {
  t.ok(exposure(unit) <= 1.3, `exposure ${exposure(unit)}`)
  const bare = path.join(t.testdir(), 'bare.service')
  const text = readFileSync(unit, 'utf8')
  writeFileSync(
    bare,
    text.replace(/^(Protect|Private|Restrict|SystemCall|CapabilityBounding|NoNew|Dynamic).*\n/gm, ''),
  )
  t.ok(exposure(bare) > 5, `exposure ${exposure(bare)}`)
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
