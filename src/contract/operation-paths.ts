/**
 * Method and path of every operation of /v1, by operationId. Free of schemas, so that clients can load it without
 * them. `operations.ts` has the other parts of each operation. Every path parameter is a UUID.
 */
export const operationPaths = {
  getOverview: ['GET', '/v1/overview'],
  getUsage: ['GET', '/v1/usage'],
  listPipes: ['GET', '/v1/pipes'],
  createPipe: ['POST', '/v1/pipes'],
  getPipe: ['GET', '/v1/pipes/{pipe_id}'],
  getPipeUsage: ['GET', '/v1/pipes/{pipe_id}/usage'],
  checkSchema: ['POST', '/v1/pipes/{pipe_id}/schema/check'],
  inferSchema: ['POST', '/v1/pipes/{pipe_id}/schema/infer'],
  getSchemaTypes: ['GET', '/v1/pipes/{pipe_id}/schema/types.ts'],
  listSchemaVersions: ['GET', '/v1/pipes/{pipe_id}/schema/versions'],
  updatePipe: ['PATCH', '/v1/pipes/{pipe_id}'],
  deletePipe: ['DELETE', '/v1/pipes/{pipe_id}'],
  putLimits: ['PUT', '/v1/pipes/{pipe_id}/limits'],
  deleteLimits: ['DELETE', '/v1/pipes/{pipe_id}/limits'],
  addAllowedOrigin: ['POST', '/v1/pipes/{pipe_id}/allowed-origins'],
  removeAllowedOrigin: ['DELETE', '/v1/pipes/{pipe_id}/allowed-origins/{origin_id}'],
  listApiKeys: ['GET', '/v1/api-keys'],
  createApiKey: ['POST', '/v1/api-keys'],
  rotateApiKey: ['POST', '/v1/api-keys/{api_key_id}/rotate'],
  purgeApiKeys: ['POST', '/v1/api-keys/purge'],
  revokeApiKey: ['DELETE', '/v1/api-keys/{api_key_id}'],
  createDestination: ['POST', '/v1/pipes/{pipe_id}/destinations'],
  testDestination: ['POST', '/v1/pipes/{pipe_id}/destinations/test'],
  inferTable: ['POST', '/v1/pipes/{pipe_id}/destinations/infer'],
  tryTransform: ['POST', '/v1/pipes/{pipe_id}/destinations/try-transform'],
  getDestination: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}'],
  getDestinationUsage: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/usage'],
  getDestinationLatency: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/latency'],
  getDrift: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/drift'],
  listAttempts: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/attempts'],
  updateDestination: ['PATCH', '/v1/pipes/{pipe_id}/destinations/{destination_id}'],
  deleteDestination: ['DELETE', '/v1/pipes/{pipe_id}/destinations/{destination_id}'],
  setDestinationStatus: ['PATCH', '/v1/pipes/{pipe_id}/destinations/{destination_id}/status'],
  skipBlockingMessage: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/skip'],
  retryNow: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/retry-now'],
  getBlockingMessage: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/blocking-message'],
  rewindDestination: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/rewind'],
  resetTlsPin: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/reset-pin'],
  listParked: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/parked'],
  getParked: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/parked/{parked_id}'],
  replayParked: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/parked/{parked_id}/replay'],
  replayManyParked: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/parked/replay'],
  deleteParked: ['DELETE', '/v1/pipes/{pipe_id}/destinations/{destination_id}/parked/{parked_id}'],
  discardManyParked: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/parked/discard'],
  listPipeParked: ['GET', '/v1/pipes/{pipe_id}/parked'],
  getPipeParked: ['GET', '/v1/pipes/{pipe_id}/parked/{parked_id}'],
  editPipeParked: ['PATCH', '/v1/pipes/{pipe_id}/parked/{parked_id}'],
  replayPipeParked: ['POST', '/v1/pipes/{pipe_id}/parked/{parked_id}/replay'],
  replayManyPipeParked: ['POST', '/v1/pipes/{pipe_id}/parked/replay'],
  deletePipeParked: ['DELETE', '/v1/pipes/{pipe_id}/parked/{parked_id}'],
  discardManyPipeParked: ['POST', '/v1/pipes/{pipe_id}/parked/discard'],
  listReplays: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/replays'],
  planReplay: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/replays/dry-run'],
  createReplay: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/replays'],
  getReplay: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/replays/{replay_id}'],
  cancelReplay: ['DELETE', '/v1/pipes/{pipe_id}/destinations/{destination_id}/replays/{replay_id}'],
  queryDestination: ['POST', '/v1/pipes/{pipe_id}/destinations/{destination_id}/query'],
  listTables: ['GET', '/v1/pipes/{pipe_id}/destinations/{destination_id}/tables'],
  getMessage: ['GET', '/v1/messages/{msg_id}'],
  listMessages: ['GET', '/v1/pipes/{pipe_id}/messages'],
  tailPipe: ['GET', '/v1/pipes/{pipe_id}/tail'],
  listUsers: ['GET', '/v1/users'],
  createUser: ['POST', '/v1/users'],
  updateUser: ['PATCH', '/v1/users/{user_id}'],
  deleteUser: ['DELETE', '/v1/users/{user_id}'],
  createSetupLink: ['POST', '/v1/setup-links'],
  listPrivacyJobs: ['GET', '/v1/privacy/jobs'],
  createPrivacyJob: ['POST', '/v1/privacy/jobs'],
  getPrivacyJob: ['GET', '/v1/privacy/jobs/{job_id}'],
  cancelPrivacyJob: ['DELETE', '/v1/privacy/jobs/{job_id}'],
  listAudit: ['GET', '/v1/audit'],
  getAlerts: ['GET', '/v1/alerts'],
  putAlerts: ['PUT', '/v1/alerts'],
  deleteAlerts: ['DELETE', '/v1/alerts'],
  testAlerts: ['POST', '/v1/alerts/test'],
  getHealth: ['GET', '/v1/health'],
  getReady: ['GET', '/v1/ready'],
  ingestRecords: ['POST', '/v1/ingest/{pipe_id}'],
  ingestHint: ['GET', '/v1/ingest/{pipe_id}'],
  ingestPreflight: ['OPTIONS', '/v1/ingest/{pipe_id}'],
  receiveHook: ['POST', '/v1/hooks/{pipe_id}'],
  answerHookChallenge: ['GET', '/v1/hooks/{pipe_id}'],
  receiveHookAtSecretUrl: ['POST', '/v1/hooks/{pipe_id}/{token}'],
  answerHookChallengeAtSecretUrl: ['GET', '/v1/hooks/{pipe_id}/{token}'],
  pullMessage: ['GET', '/v1/pull/{destination_id}'],
  ackMessage: ['POST', '/v1/pull/{destination_id}/ack'],
  nackMessage: ['POST', '/v1/pull/{destination_id}/nack'],
} as const

export type OperationId = keyof typeof operationPaths
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

/** The part of an operation that follows from its id. */
export function at<Id extends OperationId>(operationId: Id) {
  const [method, path] = operationPaths[operationId]
  return { operationId, method, path } as {
    operationId: Id
    method: (typeof operationPaths)[Id][0]
    path: (typeof operationPaths)[Id][1]
  }
}

type ParametersIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParametersIn<Rest>
  : never
/** The names of an operation's path parameters. */
export type PathParameter<Id extends OperationId> = ParametersIn<(typeof operationPaths)[Id][1]>
