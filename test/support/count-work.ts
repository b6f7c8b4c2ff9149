/**
 * How much work modules of the program do, on any machine alike: how often V8 has run each of their functions and blocks (a loop's
 * body, a branch). What is native, such as a copy of an array, counts as one.
 */
import { type Profiler, Session } from 'node:inspector/promises'

export interface WorkCounter {
  /** Since the call before. `modules`: below src/ without an ending, such as `delivery/memory-budget`. */
  take(modules: readonly string[]): Promise<number>
}

/** To be called before the modules are loaded: what is compiled before counts nothing. */
export async function startCountingWork(): Promise<WorkCounter> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  return {
    async take(modules) {
      const { result } = await session.post('Profiler.takePreciseCoverage')
      const counted = result.filter(({ url }) => modules.some((name) => url.endsWith(`/dist/${name}.js`)))
      return counted.reduce((sum, script) => sum + timesRun(script), 0)
    },
  }
}

function timesRun({ functions }: Profiler.ScriptCoverage): number {
  return functions.flatMap(({ ranges }) => ranges).reduce((sum, { count }) => sum + count, 0)
}
