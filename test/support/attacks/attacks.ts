/** All attacks by name, each with the weakness that it was made for. */
import type { Attack } from './arena.ts'
import {
  fillBuffer,
  floodBodies,
  multiplyRecords,
  sendBombs,
  sendByteByByte,
  sendCostlyJson,
} from './bodies.ts'
import { crowd, guessKeys, leavePullsUnread, pipeline, smuggle, uploadSlowly } from './connections.ts'
import {
  answerEndlessly,
  answerWrongly,
  hangPostgres,
  nameNobody,
  neverAnswer,
  reportHugeErrors,
} from './destinations.ts'
import { makeKeys, makePipes, sendWrongBodies, testDestinations } from './management.ts'
import { sendManyShapes, sendSlowValues } from './records.ts'

export const attacks = {
  sendSlowValues,
  hangPostgres,
  answerWrongly,
  multiplyRecords,
  sendBombs,
  crowd,
  testDestinations,
  neverAnswer,
  nameNobody,
  sendCostlyJson,
  sendByteByByte,
  fillBuffer,
  answerEndlessly,
  leavePullsUnread,
  smuggle,
  pipeline,
  reportHugeErrors,
  sendManyShapes,
  makeKeys,
  makePipes,
  uploadSlowly,
  floodBodies,
  guessKeys,
  sendWrongBodies,
} satisfies Record<string, Attack>

export type AttackName = keyof typeof attacks
export const attackNames = Object.keys(attacks) as AttackName[]
