/** Prometheus collects the metrics and evaluates the rules of monitoring/alerts.yml; Alertmanager receives and forwards an alert. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { startDaemon } from '../support/daemon.ts'
import { debianProgram, withFilesOf } from '../support/debian-programs.ts'
import { freePort } from '../support/free-port.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { tried, versionIn } from './results.ts'

const rulesFile = new URL('../../monitoring/alerts.yml', import.meta.url).pathname
const { groups } = parse(readFileSync(rulesFile, 'utf8')) as { groups: { rules: { alert: string }[] }[] }
const names = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert)).sort()

interface Rule {
  name: string
  health: string
  state: string
  lastError?: string
}

function versionOf(program: string): string {
  const { stdout, stderr } = spawnSync(program, ['--version'], { encoding: 'utf8' })
  return versionIn(stdout + stderr)
}

/** Returns a function that throws, with the end of its log, if the program has ended. */
function start(t: Test, [program = '', ...args]: readonly string[], directory: string): () => void {
  const child: ChildProcess = spawn(program, args, { cwd: directory, stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-4_000)
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
    if (!t.passing()) t.comment(log)
  })
  return () => {
    if (child.exitCode !== null) throw new Error(`${program} ended: ${log}`)
  }
}

for (const release of ['trixie', 'sid'] as const)
  t.test(release, async (t) => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-prometheus-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const daemon = await startDaemon()
    t.teardown(() => daemon.close())
    const sink = await startHttpSink()
    t.teardown(() => sink.stop())
    const [port, alertPort] = [await freePort(), await freePort()]
    const at = (name: string) => path.join(directory, name)
    // The rules as they are, except for the time that an alert waits.
    writeFileSync(at('alerts.yml'), readFileSync(rulesFile, 'utf8').replaceAll(/^( +)for: .*/gm, '$1for: 0s'))
    writeFileSync(
      at('prometheus.yml'),
      JSON.stringify({
        global: { scrape_interval: '1s', evaluation_interval: '1s' },
        rule_files: ['alerts.yml'],
        scrape_configs: [
          { job_name: 'pipectl', static_configs: [{ targets: [new URL(daemon.metricsUrl).host] }] },
        ],
        alerting: { alertmanagers: [{ static_configs: [{ targets: [`127.0.0.1:${alertPort}`] }] }] },
      }),
    )
    writeFileSync(
      at('alertmanager.yml'),
      JSON.stringify({
        route: { receiver: 'sink', group_wait: '0s', group_interval: '1s', group_by: ['alertname'] },
        receivers: [{ name: 'sink', webhook_configs: [{ url: `${sink.url}/alert` }] }],
      }),
    )
    const file = 'usr/bin/prometheus'
    const prometheus = debianProgram(release, { packages: ['prometheus'], file })
    const alertmanager = debianProgram(release, {
      packages: ['prometheus-alertmanager'],
      file: 'usr/bin/prometheus-alertmanager',
    })
    const listen = (own: number) => `--web.listen-address=127.0.0.1:${own}`
    const collecting = ['--config.file=prometheus.yml', '--storage.tsdb.path=data', listen(port)]
    const forwarding = [
      '--config.file=alertmanager.yml',
      '--storage.path=alerts',
      '--cluster.listen-address=',
    ]
    // It reads a template from /usr/share.
    const checkAlertmanager = start(
      t,
      withFilesOf(release, [alertmanager, ...forwarding, listen(alertPort)]),
      directory,
    )
    await until('Alertmanager responds', async () => {
      checkAlertmanager()
      return (await fetch(`http://127.0.0.1:${alertPort}/-/ready`)).ok
    })
    start(t, [prometheus, ...collecting], directory)
    const ask = async <T>(what: string): Promise<T> => {
      const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${what}`)
      return ((await answer.json()) as { data: T }).data
    }
    const rules = async () =>
      (await ask<{ groups: { rules: Rule[] }[] }>('rules')).groups.flatMap((group) => group.rules)

    await tried(t, `prometheus-${release}`, async (t) => {
      const up = await until('the daemon is collected', async () => {
        const { result } = await ask<{ result: { metric: object }[] }>('query?query=pipectl_build_info')
        return result[0]
      })
      t.match(up.metric, { job: 'pipectl' })
      const evaluated = await until('every rule is evaluated', async () => {
        const all = await rules()
        return all.length > 0 && all.every(({ health }) => health !== 'unknown') ? all : null
      })
      t.same(evaluated.map(({ name }) => name).sort(), names)
      t.same(
        evaluated.filter(({ health }) => health !== 'ok'),
        [],
      )
      const isDown = async () =>
        (await rules()).some(({ name, state }) => name === 'PipectlDown' && state === 'firing')
      // It fires until the first collection: here no alert waits.
      await until('the daemon is up', async () => !(await isDown()))
      await daemon.kill()
      await until('the alert fires', isDown)
      return versionOf(prometheus)
    })

    await tried(t, `alertmanager-${release}`, async (t) => {
      const alerts = () =>
        sink.deliveries.flatMap(({ text }) => JSON.parse(text).alerts as { status: string; labels: object }[])
      const down = await until('the alert is forwarded', () =>
        alerts().find(({ labels }) => 'alertname' in labels && labels.alertname === 'PipectlDown'),
      )
      t.match(down, {
        status: 'firing',
        labels: { severity: 'critical', job: 'pipectl' },
        annotations: { summary: /cannot be scraped/, description: /journalctl -u pipectl/ },
      })
      return versionOf(alertmanager)
    })
  })
