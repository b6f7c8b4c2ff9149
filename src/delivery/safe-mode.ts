/**
 * `serve --safe`: every lane runs as if its destination were blocked, so that nothing is attempted while somebody looks for
 * what ends the daemon. Metadata knows nothing of it: the next start without the flag delivers again.
 */
import type { LaneSource, PipeLanes } from '../metadata/lane-state.ts'

export function allBlocked(source: LaneSource): LaneSource {
  return {
    ...source,
    allPipes: async () => (await source.allPipes()).map(blocked),
    pipe: async (pipeId) => {
      const pipe = await source.pipe(pipeId)
      return pipe && blocked(pipe)
    },
  }
}

function blocked(pipe: PipeLanes): PipeLanes {
  return { ...pipe, lanes: pipe.lanes.map((spec) => ({ ...spec, status: 'blocked' as const })) }
}
