/** Metrics of the process: its build and its clock. */
import { Gauge, type Registry } from 'prom-client'

export function registerProcess(
  registry: Registry,
  { build, followsCrash }: { build: Record<string, string>; followsCrash: boolean },
): void {
  new Gauge({
    name: 'pipectl_build_info',
    help: '1; its labels describe the running program.',
    labelNames: Object.keys(build),
    registers: [registry],
  }).set(build, 1)
  new Gauge({
    name: 'pipectl_follows_crash',
    help: '1: the previous run did not stop normally (a crash, kill -9, a power cut).',
    registers: [registry],
  }).set(followsCrash ? 1 : 0)
  new Gauge({
    name: 'pipectl_time_seconds',
    help: 'The wall clock of the service.',
    registers: [registry],
    collect() {
      this.set(Date.now() / 1000)
    },
  })
}
