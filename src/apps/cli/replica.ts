/** `pipectl replica …`: commands on the replica in object storage. */
import type { Command } from 'commander'
import { group } from './define.ts'
import { addReplicaCheckCommand } from './replica-check.ts'
import { addReplicaOrphansCommands } from './replica-orphans.ts'
import { addReplicaStatusCommand } from './replica-status.ts'
import { addReplicaVerifyCommand } from './replica-verify.ts'

export function addReplicaCommands(program: Command): void {
  const replica = group(
    program,
    'replica',
    'the copy of a single machine in object storage: its state, checks and repairs',
  )
  addReplicaStatusCommand(replica)
  addReplicaVerifyCommand(replica)
  addReplicaCheckCommand(replica)
  addReplicaOrphansCommands(replica)
}
