/** Who makes a request: what routes and use cases know of the caller, however it proved who it is. */
export interface Principal {
  readonly workspaceId: string
  /** False: it may only look. */
  readonly mayManage: boolean
  readonly by:
    | { readonly kind: 'key'; readonly apiKeyId: string }
    | { readonly kind: 'session'; readonly sessionId: string; readonly userId: string }
}
