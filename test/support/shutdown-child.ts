/**
 * A daemon of real parts in a process of its own, of whose shutdown one step fails and another never ends.
 * Arguments: data directory, failing step, hanging step. SIGTERM shuts it down; it exits as the daemon would.
 */
import type { ShutdownStep } from '../../src/daemon/shutdown-steps.ts'

// The built program: its threads start in a tenth of the time that TypeScript takes.
const built = (file: string) => import(new URL(`../../dist/${file}`, import.meta.url).href)
const { loadSettings }: typeof import('../../src/settings/config.ts') = await built('settings/config.js')
const { startDaemon }: typeof import('../../src/daemon/daemon.ts') = await built('daemon/daemon.js')
const { openLog }: typeof import('../../src/platform/log.ts') = await built('platform/log.js')
const { ShutdownSteps, shutdownDeadlinesMs }: typeof import('../../src/daemon/shutdown-steps.ts') =
  await built('daemon/shutdown-steps.js')

const [dataDir, failing, hanging] = process.argv.slice(2) as [string, ShutdownStep, ShutdownStep]
const { settings, origins } = loadSettings({
  flags: { data_dir: dataDir, listen: '127.0.0.1:0', 'metrics.listen': '127.0.0.1:0' },
  env: { ...process.env, PIPECTL_BUFFER_MIN_FREE_BYTES: '0' },
})
const log = openLog({ level: 'debug', format: 'json' }, 'main')
const shutdown = new ShutdownSteps(log, { ...shutdownDeadlinesMs, [hanging]: 200 })
const { served } = await startDaemon(settings, { env: process.env, setUp: null, origins, log, shutdown })
log.info(served, 'daemon.ready')
process.once('SIGTERM', async () => {
  const failed = await shutdown.run()
  process.exit(failed.length === 0 ? 0 : 70)
})
shutdown.set(failing, () => {
  throw Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' })
})
shutdown.set(hanging, () => new Promise(() => {}))
log.info({}, 'child.broken')
