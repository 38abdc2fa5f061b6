-- Asks Tidegate whether a request may pass.
local TIDEGATE = "http://127.0.0.1:8080/v1/authz"
-- Milliseconds. If no answer arrives by then, the request does not pass.
local PATIENCE = 100
-- Other fields of the request that policies may use.
-- Some applications read an underscore as a hyphen, so Tidegate has to see that spelling too.
local PASSED_ON = { "authorization", "cookie", "x-api-key", "x_api_key", "x_api-key", "x-api_key" }

local function first(headers, name)
  return headers and headers[name] and headers[name][0]
end

-- Send all values: Tidegate refuses a repeated field, since the application might use the second.
local function all(headers, name)
  local values, index = {}, 0
  while headers[name] and headers[name][index] do
    table.insert(values, headers[name][index])
    index = index + 1
  end
  return values
end

local function question(txn)
  local request = txn.http:req_get_headers()
  local fields = {
    ["x-forwarded-for"] = { txn.sf:src() },
    ["x-forwarded-method"] = { txn.sf:method() },
    -- The path and the query, unchanged.
    ["x-forwarded-uri"] = { txn.sf:pathq() },
    ["x-forwarded-host"] = { first(request, "host") },
  }
  for _, name in ipairs(PASSED_ON) do
    fields[name] = all(request, name)
  end
  return fields
end

core.register_action("tidegate", { "http-req" }, function(txn)
  local answer = core.httpclient():get({
    url = TIDEGATE, headers = question(txn), timeout = PATIENCE,
  })
  if not answer or answer.status == 0 or answer.status >= 500 then
    -- No decision: the request does not pass, since a login is behind this. Where limits matter less than the
    -- service does, return here instead.
    txn:Warning("tidegate does not answer")
    txn:done(txn:reply({ status = 503 }))
    return
  end
  if answer.status == 200 then
    local policy, state = first(answer.headers, "ratelimit-policy"), first(answer.headers, "ratelimit")
    if policy then txn:set_var("txn.ratelimit_policy", policy) end
    if state then txn:set_var("txn.ratelimit", state) end
    return
  end
  local reply = txn:reply({ status = answer.status, body = answer.body })
  for _, name in ipairs({ "content-type", "retry-after", "ratelimit-policy", "ratelimit", "cache-control" }) do
    local value = first(answer.headers, name)
    if value then reply:add_header(name, value) end
  end
  txn:done(reply)
end)
