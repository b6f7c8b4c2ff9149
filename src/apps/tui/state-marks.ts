/** The sign and the colour of each state. Signs distinguish states where a terminal has no colours. */
import type { NodeState } from '../../contract/node-words.ts'
import type { LaneWord } from '../../contract/state-words.ts'

export interface Mark {
  sign: string
  colour?: string
}

export const stateMarks: Readonly<Record<LaneWord | NodeState | 'active' | 'paused', Mark>> = {
  stuck: { sign: '■', colour: 'red' },
  blocked: { sign: '○', colour: 'magenta' },
  retrying: { sign: '▲', colour: 'yellow' },
  delivering: { sign: '●', colour: 'green' },
  idle: { sign: '–' },
  active: { sign: '●', colour: 'green' },
  paused: { sign: '○', colour: 'yellow' },
  live: { sign: '●', colour: 'green' },
  draining: { sign: '▲', colour: 'yellow' },
  expired: { sign: '■', colour: 'red' },
}
