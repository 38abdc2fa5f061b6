-- Decides one request over keys that another limiter also writes: all its charges pay, or none
-- does. Returns the time, and three numbers for each charge, from which the caller works out the
-- verdict: counts, or a log's count, its newest instant and the one whose expiry makes room.
local SETTLE, GIVE_BACK, LOOK, ENFORCED = 0, 1, 3, 0
local LAYOUTS = { plain_fixed_window, plain_sliding_window, plain_log }

local charges, accounts, told = {}, {}, { now }

for i, packed_charge in ipairs(packed[4]) do
  local layout, limit, window, counts_denied, cost, watch, first, unit, head, tail =
    unpack(packed_charge)
  charges[i] = {
    by = LAYOUTS[layout], limit = limit, window = window, counts_denied = counts_denied == 1,
    cost = cost, watch = watch, first = first, unit = unit, head = head, tail = tail,
  }
  -- Charges to one counter share it.
  accounts[i] = accounts[first] or charges[i].by.open(charges[i])
end
-- Nothing has been written yet.
if damaged then return redis.error_reply('WRONGTYPE a value is no count') end

local function fits(it, account, cost)
  return it.limit > 0 and (cost == 0 or it.by.fits(it, account, cost))
end

-- The total cost of a charge and earlier ones to the same counter.
local function sum(i, paying)
  local cost = charges[i].cost
  for j = 1, i - 1 do
    if paying[j] and charges[j].first == charges[i].first then cost = cost + charges[j].cost end
  end
  return cost
end

local function tell(i, cost)
  local a, b, c = charges[i].by.tell(accounts[i], charges[i], cost)
  told[#told + 1], told[#told + 2], told[#told + 3] = a, b, c
end

local function settle()
  local paying, passes, refused = {}, true, {}
  for i, it in ipairs(charges) do
    local cost = sum(i, paying)
    tell(i, cost)
    paying[i] = fits(it, accounts[i], cost)
    if not paying[i] then
      if it.watch == ENFORCED then passes = false else refused[it.watch] = true end
    end
  end
  for i, it in ipairs(charges) do
    if it.cost > 0 then
      local pays = passes and paying[i] and not refused[it.watch]
      local act = pays and it.by.take or it.by.deny
      act(it, accounts[i], it.cost)
    end
  end
end

if verb == SETTLE then
  settle()
elseif verb == LOOK then
  for i, it in ipairs(charges) do tell(i, it.cost) end
elseif verb == GIVE_BACK then
  charges[1].by.give(charges[1], accounts[1], charges[1].cost)
else
  charges[1].by.forget(accounts[1])
end
told[#told + 1] = mark
return told
