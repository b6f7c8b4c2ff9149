/**
 * The process that attacks run in, beside the test's own: what they cost their maker must not make the victims look slow,
 * and a server that pours data without end must not hold up the test.
 */
import { Arena, clearWorkspace } from './arena.ts'
import type { AttackerOrder, AttackerReport } from './attacker.ts'
import { attacks } from './attacks.ts'

interface Running {
  arena: Arena
  ended: Promise<void>
}
let running: Promise<Running> | null = null
const report = (message: AttackerReport) => process.send?.(message)

async function start(order: Extract<AttackerOrder, { kind: 'start' }>): Promise<Running> {
  await clearWorkspace(order.target)
  const arena = new Arena(order.target, order.seed, () => report({ kind: 'under-way' }))
  return { arena, ended: attacks[order.name](arena) }
}

async function stop(attack: Promise<Running>): Promise<void> {
  const { arena, ended } = await attack
  await arena.close()
  await ended
  await clearWorkspace(arena.target)
  report({ kind: 'ended', statuses: arena.statuses })
}

process.on('message', (order: AttackerOrder) => {
  if (order.kind === 'start') running = start(order)
  else if (running !== null) void stop(running)
})
// The test is gone.
process.on('disconnect', () => process.exit(0))
report({ kind: 'ready' })
